"""What holds a candidate on this machine, in words: the level's promises, the filter and the control groups together.

Knows what each of them adds. Does not hold anything itself.
"""

from __future__ import annotations

from pike.evaluate import cgroup, filters
from pike.evaluate.sandbox import Claim, SandboxLevel


def not_enforced(level: SandboxLevel) -> str:
    """What nothing on this machine stops at this level, for the verdict and `pike doctor`; may be empty."""
    held = set(level.claims)
    if filters.work():
        held.add(Claim.NETWORK)  # the filter allows local sockets only
    gaps = [claim.value for claim in Claim if claim not in held]
    if not filters.work():
        gaps.append("system calls and starting programs while being timed")
    place = cgroup.find()
    if not filters.work() and not (place and place.cpus):
        gaps.append("keeping to `evaluate.threads` CPUs")
    if place is None or not place.memory:
        gaps.append("memory between two samples")
    if place is None or not place.tasks:
        gaps.append("number of processes between two samples")
    return ", ".join(gaps)
