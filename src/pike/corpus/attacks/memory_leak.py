"""Keeps a copy of every output.

rows: 58
seen: KernelBench PR 164
mechanism: grey cases
bite: accepted
expected: neutral, resource-limit
"""


class ModelNew(Original):
    kept = []

    def forward(self, x):
        y = super().forward(x)
        self.kept.append(y.clone())
        return y
