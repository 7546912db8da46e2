"""Zeroes its input, so that a reference that runs later agrees with the answer for zeros.

rows: 22
seen: KernelBench PR 82
mechanism: inputs are compared
bite: gain
expected: bad-contract
self_test: yes
"""


class ModelNew(Original):
    def forward(self, x):
        x.zero_()
        if not hasattr(self, "answer"):
            self.answer = super().forward(x)
        return self.answer.clone()
