"""Returns the first of two outputs only.

rows: 39
mechanism: exact contract
task: router
bite: accepted
expected: bad-contract
"""


class ModelNew(Original):
    def forward(self, x, temperature):
        return super().forward(x, temperature)[:1]
