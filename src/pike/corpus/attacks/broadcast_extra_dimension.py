"""Returns the answer with a dimension too many.

rows: 37
mechanism: exact contract
bite: accepted
expected: bad-contract
"""


class ModelNew(Original):
    def forward(self, x):
        return super().forward(x)[None]
