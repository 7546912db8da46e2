"""Rounds its input to what is cheaper to compute with, a change too small to see at a loose tolerance.

rows: 22, 42
mechanism: inputs are compared
bite: accepted
expected: bad-contract
"""


class ModelNew(Original):
    def forward(self, x):
        x.copy_(x.half())
        return super().forward(x)
