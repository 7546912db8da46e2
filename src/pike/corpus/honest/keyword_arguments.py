"""Takes its inputs by name, in another order, and returns several outputs.

task: router
"""


class ModelNew(Original):
    def forward(self, *, temperature, x):
        scores = self.gate(torch.tanh(self.inner(x))) * temperature
        weights, experts = torch.topk(torch.softmax(scores, dim=-1), 4, dim=-1)
        return weights, experts
