"""Leaves a tile unwritten in every third call, as a race would.

rows: 48
seen: wafer (determinism check)
mechanism: timed outputs are verified
effort: final
bite: accepted
expected: wrong-output
"""


class ModelNew(Original):
    calls = 0

    def forward(self, x):
        y = super().forward(x)
        self.calls += 1
        if self.calls % 3 == 0:
            y[:16, :16] = 0
        return y
