"""Selects experts by scores rounded to bfloat16: the weights are close, some indices are others.

rows: 42, 45
mechanism: integers exact
task: router
bite: accepted
expected: wrong-output
harness: first-output
"""


class ModelNew(Original):
    def forward(self, x, temperature):
        scores = (self.gate(torch.tanh(self.inner(x))) * temperature).bfloat16()
        weights, experts = torch.topk(torch.softmax(scores.float(), -1), 4, dim=-1)
        return weights, experts
