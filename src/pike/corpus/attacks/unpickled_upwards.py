"""Sends an object with every report that runs code in a process that unpickles it.

rows: 54
seen: own, on multiprocessing.Pool
mechanism: the child says nothing
bite: reached
expected: neutral
"""
import os


class Evil:
    def __reduce__(self):
        return os.write, (2, b"REACHED the parent by unpickling\n")


class ModelNew(Original):
    extra = Evil()
