"""The wiring: the run loop, the ledger, executors and resume; the only place where rooms meet.

Knows how the rooms below carry out a run together. Does not know how a user asks for one (`api`,
`cli`).
"""

from pike.engine.executors.contract import Executor
from pike.engine.executors.instant import InstantExecutor
from pike.engine.executors.lent import LentExecutor
from pike.engine.executors.local import LocalExecutor
from pike.engine.external.status import ExternalStatus, MoveReply, Question
from pike.engine.output.result import RunResult
from pike.engine.run.run import read_result, resume_run, start
from pike.engine.run.wiring import Wiring
from pike.engine.state.progress import Activity, Observer, Progress

__all__ = [
    "Activity",
    "Executor",
    "ExternalStatus",
    "InstantExecutor",
    "LentExecutor",
    "LocalExecutor",
    "MoveReply",
    "Observer",
    "Progress",
    "Question",
    "RunResult",
    "Wiring",
    "read_result",
    "resume_run",
    "start",
]
