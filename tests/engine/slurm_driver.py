"""`pike campaign` with a judge that is instant but for a pause, as Slurm's script calls it."""

from __future__ import annotations

import sys

import pike
from pike.api.campaigns import Shared
from pike.engine.executors.instant import InstantExecutor

if __name__ == "__main__":
    _, first, *more = sys.argv[1:]
    shared = Shared(executor=InstantExecutor(delay_seconds=0.2))
    done = (
        pike.campaign(resume=more[0], shared=shared)
        if first == "--resume"
        else pike.campaign(first, out=more[1], shared=shared)
    )
    sys.exit(0 if done.figures.finished else 130)
