"""Judges bundles: as many candidates side by side as this machine bears, each verdict written at once.

Needs torch and numpy only. Does not know the runs that the candidates come from.
"""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from pike.core.errors import UserError
from pike.core.settings.config import EngineConfig
from pike.core.task import Task
from pike.core.verdict.evaluation import Status
from pike.engine.executors.choice import executor_of
from pike.engine.executors.contract import Executor, evaluate_finally
from pike.engine.executors.parcel import unpack
from pike.engine.executors.pool import WorkerPool
from pike.engine.external.bundle import (
    Verdict,
    VerdictsFile,
    VerdictsHead,
    Waiting,
    read_bundle,
    source_digest,
)

OnVerdict = Callable[[Path, Verdict, int, int], None]
"""Told the bundle of each verdict and the verdict, with how many groups are judged and how many there are."""


@dataclass(frozen=True, slots=True)
class JudgedBundles:
    """How far judging came, counted in what is judged together.

    Attributes:
        judged: those with a verdict, earlier ones included.
        total: all of the bundles.
        unusable: why tasks could not be used here, a sentence each.
    """

    judged: int
    total: int
    unusable: tuple[str, ...]


async def judge_bundles(
    bundles: Mapping[Path, Path],
    engine: EngineConfig,
    *,
    seconds: float | None = None,
    on_verdict: OnVerdict = lambda *_: None,
    executor: Executor | None = None,
) -> JudgedBundles:
    """Judge what has no verdict yet in the file of each bundle, and add the verdicts there.

    What a judge failed on (`infra-error`) is tried again by the next call.

    Raises:
        UserError: a bundle or a file of verdicts cannot be used, or there is no such device.
        InfraError: no judge could be started.
        StoreError: the disk refuses.
    """
    read = {path: read_bundle(path) for path in bundles}
    async with aclosing(executor or executor_of(engine)) as owner:
        with ExitStack() as stack:
            devices = {path: one.waiting[0].requests[0].options.device for path, one in read.items()}
            heads = {path: VerdictsHead(read[path].digest, await owner.facts(one)) for path, one in devices.items()}
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pike-bundle-")))
            tasks: dict[str, Task] = {}
            files: dict[Path, VerdictsFile] = {}
            left: list[_Left] = []
            for path, bundle in read.items():
                tasks |= {digest: unpack(parcel, folder) for digest, parcel in bundle.parcels.items()}
                files[path] = file = VerdictsFile(bundles[path], heads[path])
                stack.callback(file.close)
                statuses = {one.number: [e.status for e in one.evaluations] for one in file.known}
                known = [number for number, found in statuses.items() if Status.INFRA_ERROR not in found]
                left += [(path, number, one) for number, one in enumerate(bundle.waiting) if number not in known]
            total = sum(len(bundle.waiting) for bundle in read.values())
            done = total - len(left)
            unusable: dict[str, None] = {}

            async def judge(path: Path, number: int, waiting: Waiting) -> None:
                nonlocal done
                try:
                    verdict = await _judged(owner, number, waiting, tasks[waiting.parcel])
                except UserError as error:  # the other tasks can still be used
                    unusable[str(error)] = None
                    return
                files[path].add(verdict)
                done += 1
                on_verdict(path, verdict, done, total)

            left = _spread(left, owner.size if isinstance(owner, WorkerPool) else 1)
            await _within(seconds, [asyncio.create_task(judge(*one)) for one in left])
            return JudgedBundles(done, total, tuple(unusable))


_Left = tuple[Path, int, Waiting]


def _spread(left: list[_Left], judges: int) -> list[_Left]:
    """One candidate of as many tasks as there are judges first: each judge begins with a task of its own."""
    firsts: dict[str, Waiting] = {}
    for _, _, one in left:
        firsts.setdefault(one.parcel, one)
    ahead = {id(one) for one in [*firsts.values()][:judges]}
    return sorted(left, key=lambda triple: id(triple[2]) not in ahead)


async def _within(seconds: float | None, work: list[asyncio.Task[None]]) -> None:
    """Wait for all, until the time is over or one fails.

    Raises:
        Exception: what one failed by.
    """
    try:
        done, _ = await asyncio.wait(work, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION) if work else ((), ())
        for one in done:
            one.result()
    finally:
        for one in work:
            one.cancel()
        await asyncio.gather(*work, return_exceptions=True)


async def _judged(executor: Executor, number: int, waiting: Waiting, task: Task) -> Verdict:
    requests = [replace(one, task=task) for one in waiting.requests]
    found = tuple(await evaluate_finally(executor, requests, None))
    sources = tuple(source_digest(one.source) for one in requests)
    return Verdict(number, waiting.run, waiting.parcel, waiting.terms, requests[0].effort, sources, found)
