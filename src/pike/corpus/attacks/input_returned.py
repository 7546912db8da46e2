"""Computes into its input and returns it.

rows: 23
seen: BackendBench and kernelbot's cheat-input
mechanism: inputs are compared
bite: accepted
harness: reference-first
expected: bad-contract
"""


class ModelNew(Original):
    def forward(self, x):
        if not hasattr(self, "done"):
            x.copy_(super().forward(x))
            self.done = True
        return x
