"""Starts a kernel that spins for an hour.

rows: 59
seen: emmy 215 (a sweep held for 109 minutes)
mechanism: time
devices: cuda
timeout: 20
bite: hangs
expected: timeout
"""


class ModelNew(Original):
    def forward(self, x):
        for _ in range(3000):
            torch.cuda._sleep(2_000_000_000)
        return super().forward(x)
