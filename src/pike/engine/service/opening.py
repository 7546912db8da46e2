"""Opens a desk: the folder, its lock, the queue and the judges.

Knows how they go together, and in which order they end. Does not know who may ask.
"""

import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path

from pike.core.errors import UserError
from pike.core.settings.config import EngineConfig
from pike.engine.executors.choice import executor_of
from pike.engine.executors.contract import Executor
from pike.engine.service.judging import Desk, DeskTerms
from pike.engine.service.queue import SubmissionQueue
from pike.judge.sandbox import BareProcess, choose
from pike.store.boundary import writing
from pike.store.lock import RunLock


@asynccontextmanager
async def opened_desk(
    folder: Path, terms: DeskTerms, engine: EngineConfig, executor: Executor | None = None
) -> AsyncIterator[Desk]:
    """A desk over the queue in a folder, with its judges.

    Args:
        folder: made if it is not there; one process may hold it.
        terms: what the owner decides.
        engine: where judges work, and on which devices.
        executor: judges instead of those.

    Raises:
        UserError: another process holds the folder, or there is no such device.
        InfraError: no judge could be started.
        StoreError: the disk refuses.
    """
    if engine.executor.startswith("http"):
        raise UserError("engine.executor: a service does not judge at another service; use local or ray")
    folder = folder.resolve()
    with writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(RunLock(folder, time.time())), closing(SubmissionQueue(folder, time.time)) as queue:
        async with aclosing(executor or executor_of(engine)) as owner:
            facts = await owner.facts("auto")
            if executor is None and terms.sandbox == "auto" and choose("auto", facts.is_cuda).name == BareProcess.name:
                raise UserError(
                    "Only the sandbox 'process' works here, in which candidates of others could read this user's "
                    "files: install bubblewrap or podman, or accept that by --set evaluate.sandbox=process"
                )
            yield Desk(folder, queue, owner, terms, facts)
