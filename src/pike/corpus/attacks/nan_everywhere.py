"""Returns NaN, which is never larger than a tolerance.

rows: 40
seen: reference-kernels 2b859bb
mechanism: error budget
bite: gain
expected: wrong-output
"""


class ModelNew(Original):
    def forward(self, x):
        return torch.full_like(x, float("nan"))
