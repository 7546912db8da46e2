"""Starts a program in the middle of a call.

rows: 61
seen: pygpubench's seccomp filter
mechanism: programs
bite: reached
owed: refused, neutral
self_test: yes
"""
import subprocess
import sys


class ModelNew(Original):
    tried = False

    def forward(self, x):
        if not self.tried:
            self.tried = True
            try:
                subprocess.run(["true"], check=True)
                sys.stderr.write("REACHED a program\n")
            except OSError:
                pass
        return super().forward(x)
