"""Returns no outputs at all, so that zip compares nothing.

rows: 39
mechanism: exact contract
task: router
bite: gain
expected: bad-contract
"""


class ModelNew(Original):
    def forward(self, x, temperature):
        return ()
