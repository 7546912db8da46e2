"""Works through the batch in chunks with preallocated output.

self_test: yes
"""


class ModelNew(Original):
    def forward(self, x):
        y = torch.empty_like(x)
        for rows, out in zip(x.split(16), y.split(16)):
            torch.addmm(self.second.bias, activation(self.first(self.norm(rows))), self.second.weight.t(), out=out)
        return y
