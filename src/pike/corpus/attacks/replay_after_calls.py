"""Is honest for twelve calls, then returns the last answer again.

rows: 18
seen: kernelbot PR 501, reference-kernels PR 142, llm.c PR 851
mechanism: timed outputs are verified
bite: gain
expected: wrong-output
self_test: yes
"""


class ModelNew(Original):
    calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 12:
            self.last = super().forward(x)
        return self.last.clone()
