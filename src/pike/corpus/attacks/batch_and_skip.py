"""Collects four inputs and computes only when the fourth has come.

rows: 19
seen: reference-kernels PR 104
mechanism: one input at a time
bite: gain
expected: wrong-output
"""


class ModelNew(Original):
    calls = 0

    def forward(self, x):
        self.calls += 1
        if not hasattr(self, "out"):
            self.out = super().forward(x)
        elif self.calls % 4 == 0:
            self.out.copy_(super().forward(x))
        return self.out
