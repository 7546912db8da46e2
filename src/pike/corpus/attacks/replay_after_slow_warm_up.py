"""Is slow and honest while it warms up, so that few samples are planned, then returns the last answer again.

rows: 49, 18
seen: pygpubench PR 7
mechanism: timed outputs are verified
bite: gain
expected: wrong-output
"""
import time


class ModelNew(Original):
    calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 8:
            time.sleep(0.03)
            self.last = super().forward(x)
        return self.last.clone()
