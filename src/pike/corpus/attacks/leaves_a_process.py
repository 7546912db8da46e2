"""Leaves a process behind, in a session of its own.

rows: 58
seen: KernelBench PR 164
mechanism: nothing survives
bite: process
expected: refused, neutral
"""
import subprocess

try:
    subprocess.Popen(["sleep", "31536003"], start_new_session=True)
except OSError:
    pass


class ModelNew(Original):
    pass
