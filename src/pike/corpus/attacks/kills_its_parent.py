"""Kills its parent process.

rows: 57
mechanism: processes
needs: signals
bite: dies
expected: refused, neutral
"""
import os
import signal


class ModelNew(Original):
    parent = os.getppid()

    def forward(self, x):
        try:
            os.kill(self.parent, signal.SIGKILL)
        except OSError:
            pass
        return super().forward(x)
