"""Returns one element of sixteen thousand that is slightly off.

rows: 45, 48
mechanism: error budget
bite: accepted
expected: wrong-output
"""


class ModelNew(Original):
    def forward(self, x):
        y = super().forward(x)
        y[7, 7] += 0.005
        return y
