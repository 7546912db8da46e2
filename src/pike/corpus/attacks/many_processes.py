"""Starts sixty processes (a bounded fork bomb).

rows: 58
mechanism: nothing survives
bite: process
expected: refused, neutral
"""
import subprocess

for _ in range(60):
    try:
        subprocess.Popen(["sleep", "31536004"], start_new_session=True)
    except OSError:
        break


class ModelNew(Original):
    pass
