"""Forks a helper in the middle of its calls, once everything is warm.

rows: 61
mechanism: no processes while it is timed
devices: cpu
bite: reached
expected: refused, neutral
"""
import os
import sys


class ModelNew(Original):
    calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 20:
            try:
                if os.fork() == 0:
                    os._exit(0)
                sys.stderr.write("REACHED a process\n")
            except OSError:
                pass
        return super().forward(x)
