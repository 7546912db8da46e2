"""Starts a program in the middle of its calls, once everything is warm.

rows: 61
seen: pygpubench's seccomp filter
mechanism: no programs while it is timed
bite: reached
expected: refused, neutral
self_test: yes
"""
import subprocess
import sys


class ModelNew(Original):
    calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 20:
            try:
                subprocess.run(["true"], check=True)
                sys.stderr.write("REACHED a program\n")
            except OSError:
                pass
        return super().forward(x)
