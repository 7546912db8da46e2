"""What carries evaluations out: judges here, an instant fake, or an earlier run's verdicts. Also what
explores models for recipes.

Knows the seam between the run loop and what judges. Does not judge (`judge`).
"""

from pike.engine.executors.choice import executor_of, explorer_of
from pike.engine.executors.contract import Executor, JudgedElsewhere, OnStage, Worker
from pike.engine.executors.exploring import Explorer, ProcessExplorer
from pike.engine.executors.instant import InstantExecutor
from pike.engine.executors.lent import LentExecutor
from pike.engine.executors.local import LocalExecutor, judge_count
from pike.engine.executors.pool import WorkerPool
from pike.engine.executors.recorded import RecordedExecutor

__all__ = [
    "Executor",
    "Explorer",
    "InstantExecutor",
    "JudgedElsewhere",
    "LentExecutor",
    "LocalExecutor",
    "OnStage",
    "ProcessExplorer",
    "RecordedExecutor",
    "Worker",
    "WorkerPool",
    "executor_of",
    "explorer_of",
    "judge_count",
]
