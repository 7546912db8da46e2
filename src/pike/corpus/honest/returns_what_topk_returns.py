"""Returns the result of torch.topk as it is, where the reference takes it apart and returns a tuple.

task: router
"""


class ModelNew(Original):
    def forward(self, x, temperature):
        scores = self.gate(torch.tanh(self.inner(x))) * temperature
        return torch.topk(torch.softmax(scores, dim=-1), 4, dim=-1)
