"""Takes more CPUs than both sides were given.

rows: 64
mechanism: the same cores for both sides
devices: cpu
cpus: 2
bite: reached
owed: neutral
gap: the number of threads is set, not enforced: a candidate may run on more CPUs than the reference
"""
import os
import sys

_given = torch.get_num_threads()
if len(os.sched_getaffinity(0)) > _given:
    sys.stderr.write("REACHED more CPUs than were given\n")


class ModelNew(Original):
    pass
