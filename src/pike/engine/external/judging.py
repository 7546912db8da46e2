"""Judges bundles: as many candidates side by side as this machine bears, each verdict written at once.

Needs torch and numpy only. Does not know the runs that the candidates come from.
"""

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from pike.core.errors import UserError
from pike.core.settings.config import EngineConfig
from pike.core.task import Task
from pike.core.verdict.evaluation import Effort, Status
from pike.engine.executors.choice import executor_of
from pike.engine.executors.contract import Executor
from pike.engine.executors.parcel import unpack
from pike.engine.executors.pool import WorkerPool
from pike.engine.external.bundle import Verdict, VerdictsFile, VerdictsHead, Waiting, read_bundle, source_digest

OnVerdict = Callable[[Verdict, int, int], None]
"""Told each verdict as it comes, with how many groups are judged and how many there are."""


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
    bundles: Sequence[tuple[Path, Path]],
    engine: EngineConfig,
    *,
    seconds: float | None = None,
    on_verdict: OnVerdict = lambda *_: None,
    executor: Executor | None = None,
) -> JudgedBundles:
    """Judge what has no verdict yet: each bundle's verdicts are added to the file named after it.

    What a judge failed on (`infra-error`) is tried again by the next call.

    Raises:
        UserError: a bundle or a file of verdicts cannot be used, or there is no such device.
        InfraError: no judge could be started.
        StoreError: the disk refuses.
    """
    read = [(read_bundle(path), out) for path, out in bundles]
    async with aclosing(executor or executor_of(engine)) as owner:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pike-bundle-")))
            tasks: dict[str, Task] = {}
            left: list[_Left] = []
            done = 0
            for bundle, out in read:
                facts = await owner.facts(bundle.waiting[0].requests[0].options.device)
                file = VerdictsFile(out, VerdictsHead(bundle.digest, facts))
                stack.callback(file.close)
                tasks |= {digest: unpack(parcel, folder) for digest, parcel in bundle.parcels.items()}
                known = {
                    one.number for one in file.known if Status.INFRA_ERROR not in [e.status for e in one.evaluations]
                }
                left += [(file, number, one) for number, one in enumerate(bundle.waiting) if number not in known]
                done += len(known)
            total = done + len(left)
            left = _spread(left, owner.size if isinstance(owner, WorkerPool) else 1)
            unusable: dict[str, None] = {}

            async def judge(file: VerdictsFile, number: int, waiting: Waiting) -> None:
                nonlocal done
                try:
                    verdict = await _judged(owner, number, waiting, tasks[waiting.parcel])
                except UserError as error:  # the other tasks can still be used
                    unusable[str(error)] = None
                    return
                file.add(verdict)
                done += 1
                on_verdict(verdict, done, total)

            await _within(seconds, [asyncio.create_task(judge(*one)) for one in left])
            return JudgedBundles(done, total, tuple(unusable))


_Left = tuple[VerdictsFile, int, Waiting]


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
    found = await executor.evaluate_together(requests)
    if requests[0].effort is Effort.FINAL:
        for index, one in enumerate(found):
            if one.status is Status.UNTRUSTED_TIMING:  # a machine that is busy for a moment looks like this too
                found[index] = await executor.evaluate(requests[index])
    sources = tuple(source_digest(one.source) for one in requests)
    return Verdict(number, waiting.run, waiting.parcel, waiting.terms, requests[0].effort, sources, tuple(found))
