"""Leaves the work to a forked process that shares the output's memory.

rows: 3, 61
devices: cpu
mechanism: snapshot of a poisoned output
bite: accepted
expected: refused
"""
import mmap
import os


class ModelNew(Original):
    def forward(self, x):
        shared = mmap.mmap(-1, x.numel() * 4)
        y = torch.frombuffer(shared, dtype=torch.float32).view_as(x)
        y.fill_(float("nan"))
        if os.fork() == 0:
            try:
                for _ in range(2):
                    late = super().forward(x)
                y.copy_(late)
            finally:
                os._exit(0)
        return y
