"""Works in buffers that it keeps, and returns a new tensor.

self_test: yes
"""


class ModelNew(Original):
    buffers_of = None

    def forward(self, x):
        if self.buffers_of is None or self.buffers_of[0].device != x.device:
            self.buffers_of = x.new_empty(len(x), 512), x.new_empty(len(x), 256)
        h, y = self.buffers_of
        torch.addmm(self.first.bias, self.norm(x), self.first.weight.t(), out=h)
        torch.addmm(self.second.bias, F.gelu(h), self.second.weight.t(), out=y)
        return y.clone()
