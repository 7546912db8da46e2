"""Takes the process down with a fault in native code.

rows: 60
mechanism: a process for each candidate
bite: dies
expected: runtime-error
"""
import ctypes


class ModelNew(Original):
    def forward(self, x):
        return ctypes.string_at(0)
