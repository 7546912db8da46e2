"""Returns one zero with strides of zero, in the right shape.

rows: 41, 35
mechanism: error budget
task: tiny
bite: gain
expected: wrong-output, bad-contract
"""


class ModelNew(Original):
    def forward(self, x):
        return torch.zeros(1, 1, device=x.device).expand(x.shape)
