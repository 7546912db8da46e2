"""Computes only the rows that are large and leaves the others at zero.

rows: 45
mechanism: error budget for each row
task: ragged
bite: accepted
expected: wrong-output
"""


class ModelNew(Original):
    def forward(self, x):
        large = x.abs().amax(1) > 1e-2
        y = torch.zeros_like(x)
        y[large] = super().forward(x[large])
        return y
