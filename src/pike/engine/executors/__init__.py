"""Who carries evaluations out: judges on this machine, an instant fake, or an earlier run's verdicts.

Knows the seam between the run loop and whatever judges. Does not know how a verdict is reached (`evaluate`) nor
what is done with it (`engine.run`).
"""

from pike.engine.executors.contract import Executor, OnStage
from pike.engine.executors.instant import InstantExecutor
from pike.engine.executors.lent import LentExecutor
from pike.engine.executors.local import LocalExecutor
from pike.engine.executors.recorded import RecordedExecutor

__all__ = ["Executor", "InstantExecutor", "LentExecutor", "LocalExecutor", "OnStage", "RecordedExecutor"]
