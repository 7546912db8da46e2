"""The wiring: the run loop, the ledger, executors and resume; the only place where rooms meet.

Knows how the rooms below work together to carry out a run. Does not know how a run is asked for (`api`, `cli`).
"""

from pike.engine.executors import Executor, InstantExecutor, LentExecutor, LocalExecutor, RecordedExecutor
from pike.engine.progress import Activity, Observer, Progress
from pike.engine.result import Finalist, RunResult
from pike.engine.run import Wiring, read_result, resume_run, start
from pike.engine.standing import Question, Reply, Standing

__all__ = [
    "Activity",
    "Executor",
    "Finalist",
    "InstantExecutor",
    "LentExecutor",
    "LocalExecutor",
    "Observer",
    "Progress",
    "Question",
    "RecordedExecutor",
    "Reply",
    "RunResult",
    "Standing",
    "Wiring",
    "read_result",
    "resume_run",
    "start",
]
