"""A foreign run as a journal: the same events that a run of PIKE leaves, marked imported.

Knows the order of events and that a journal appears whole or not at all. Does not know any layout.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pike
from pike import store
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.events import (
    Asked,
    Compared,
    Event,
    Judged,
    Proposed,
    QueryAnswered,
    QuerySent,
    RunStarted,
    Told,
)
from pike.core.query import Query
from pike.core.settings.budget import Budget
from pike.core.settings.config import LlmConfig, RunConfig, StrategyConfig
from pike.core.step import ORIGINAL, Candidate, Role, Step
from pike.core.verdict.evaluation import EvaluateOptions, Status
from pike.exchange.drafts import drafted
from pike.exchange.importers.foreign import ForeignCandidate, ForeignRun, ForeignVerdict, evaluation_of

PRESET = "imported"
"""The strategy of an imported run; no strategy of PIKE has this name."""
UNKNOWN = "unknown"


def write(run: ForeignRun, out: Path) -> Path:
    """Write a run as a new journal `OUT/NAME` and return that folder.

    Raises:
        UserError: the folder exists, or the run has no time to compare with.
        StoreError: the disk refused.
    """
    folder = out / run.name
    if folder.exists():
        raise UserError(f"The folder {folder} exists: choose another one with --out, or remove it")
    moments = list(_moments(run))
    now = [moments[0][0]]
    with drafted(folder, "run") as draft, store.Journal.create(draft, clock=lambda: now[0]) as journal:
        for at_seconds, events in moments:
            now[0] = max(now[0], at_seconds)
            journal.append(*events, durable=False)
        journal.flush()
    return folder


def _moments(run: ForeignRun) -> Iterator[tuple[float, tuple[Event, ...]]]:
    """The events of a run, each group with its time; where times are unknown, that of the import."""
    times = [one.at_seconds for one in run.candidates if one.at_seconds is not None]
    at_seconds = min(times, default=time.time())
    yield at_seconds, (_beginning(run), *_ideas(run))
    ids, seeds = {ORIGINAL: ORIGINAL}, dict[str, str]()
    for index, one in enumerate(run.candidates):
        at_seconds = max(at_seconds, one.at_seconds or at_seconds)
        step = _step(one, index + bool(run.ideas), ids, seeds)
        ids[one.key], seeds[one.key] = f"c{step.id}", step.seed
        yield at_seconds, tuple(_events(run, one, step))
    compared = [Compared(name, "", evaluation_of(ForeignVerdict(Status.VALID, ms), run)) for name, ms in run.baselines]
    yield at_seconds, tuple(compared)


def _beginning(run: ForeignRun) -> RunStarted:
    config = RunConfig(
        task=run.task.id,
        strategy=StrategyConfig(PRESET, name=run.strategy),
        llm=LlmConfig(coa=run.model or UNKNOWN),
        budget=Budget(len(run.candidates)),
        evaluate=EvaluateOptions(tolerance=run.tolerance),
    )
    device = DeviceFacts(UNKNOWN, UNKNOWN)
    islands = {f"c{n}": one.island for n, one in enumerate(run.candidates, bool(run.ideas)) if one.island is not None}
    origin = replace(run.origin, islands=islands)
    return RunStarted(run.task, config, device, pike.__version__, run.original.ms, imported=origin)


def _ideas(run: ForeignRun) -> tuple[Event, ...]:
    if not run.ideas:
        return ()
    step = Step(0, Role.BRAINSTORM, queries=0, temperature=math.nan, max_output_tokens=0)
    return Asked(step), Told(0, ideas=run.ideas)


def _step(one: ForeignCandidate, id: int, ids: dict[str, str], seeds: dict[str, str]) -> Step:
    """The decision behind a candidate; a repair keeps the seed of what it mends."""
    return Step(
        id=id,
        role=Role.FIX if one.repairs else Role.OPTIMISE,
        sample=one.sample,
        seed=seeds.get(one.repairs, ids.get(one.parent, "")),
        failing=ids.get(one.repairs),
        attempt=one.attempt,
        temperature=math.nan,
        max_output_tokens=0,
    )


def _events(run: ForeignRun, one: ForeignCandidate, step: Step) -> Iterator[Event]:
    candidate = Candidate(f"c{step.id}", one.source, step.seed, run.model or UNKNOWN, one.note)
    yield Asked(step)
    if one.prompt or one.answer is not None:
        query = Query(step.id, step.role, one.system, one.prompt, math.nan, 0)
        yield QuerySent(query, 1, run.model or UNKNOWN, None, 0)
    if one.answer is not None:
        yield QueryAnswered(step.id, 1, one.answer)
    yield Proposed(step.id, candidate)
    yield Judged(candidate.id, evaluation_of(one.verdict, run))
    yield Told(step.id, candidate.id)
