"""A suite: contenders on many tasks, as far as the time reaches; the same command goes on.

Knows which cells need not be measured. Does not carry cells out (`scheduler`).
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pike import store
from pike.baselines import for_device
from pike.core.codec import encode
from pike.core.comparison.campaign import CampaignConfig, CampaignFile, CampaignPlan, Cell
from pike.core.comparison.results import Result, digest
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.settings.config import RunConfig
from pike.core.task import Task
from pike.core.verdict.evaluation import Effort, Precision
from pike.engine.executors import gpus
from pike.engine.executors.choice import explorer_of, remote
from pike.engine.executors.contract import Executor
from pike.engine.executors.exploring import Explorer
from pike.engine.executors.pool import WorkerPool
from pike.engine.output.commit import commit
from pike.engine.schedule.contenders.candidates import candidate_of, require_device
from pike.engine.schedule.contenders.histories import Histories
from pike.engine.schedule.contenders.naming import RECIPES
from pike.engine.schedule.contenders.recipe_search import RecipeLimits
from pike.engine.schedule.order import Order, PlanStage, alone_seconds
from pike.engine.schedule.plan import make_plan, task_of
from pike.engine.schedule.records import ResultTerms, known_result
from pike.engine.schedule.scheduler import CampaignWiring, CellWork, Scheduler
from pike.engine.schedule.turns import CellProgress
from pike.reporting.campaign import CellState, figures_of_run
from pike.store import campaigns
from pike.store.boundary import writing
from pike.store.lock import RunLock

WORKER_BYTES = 12 << 30
"""Device memory that each worker of a suite should find: with eight on an 80 GiB GPU the larger
tasks found none (docs/experiments/2026-11-23-h100-3-every-task.md)."""
MOST_WORKERS = 10


@dataclass(frozen=True, slots=True)
class Survey:
    """What a suite measures, and on which terms.

    Attributes:
        targets: suites, tasks of them, files, `package.module:callable`.
        out: a folder, which gets results, histories of recipes and, under `runs/`, a folder for
            each search.
        contenders: names, or tables as in a campaign; empty for recipes and all baselines that
            differ on the device.
        precisions: the declared arithmetic, each on its own.
        effort: how much fixed candidates are measured.
        minutes: after how long everything is stopped; None for no limit.
        workers: how many judges; 0 for as many as cores and device memory bear.
        have: files and folders with earlier results, which are not measured again.
        known: files and folders with histories of searches over recipes.
        candidates: the most of one search over recipes.
        recipe_minutes: the time of one search over recipes.
        part: which share of the tasks, (1, 1) for all; (2, 4) is every fourth from the second on.
        explorer: finds out which recipes apply to a task.
        share_caches: have the baselines of a task share what compilers leave behind.
        command: what was typed, for the record.
        commit: of the source, for a machine without a checkout.
    """

    targets: tuple[str, ...]
    out: Path
    contenders: tuple[Any, ...] = ()
    precisions: tuple[Precision, ...] = (Precision.SAME,)
    effort: Effort = Effort.FINAL
    minutes: float | None = None
    workers: int = 0
    have: tuple[Path, ...] = ()
    known: tuple[Path, ...] = ()
    candidates: int = 3
    recipe_minutes: float = 3.0
    part: tuple[int, int] = (1, 1)
    explorer: Explorer | None = None
    share_caches: bool = False
    command: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class SuitePlan:
    """What a suite will do.

    Attributes:
        stages: the work that is left, the most valuable first.
        known: results that need not be measured again.
        workers: how many judges work side by side.
        device: where everything is measured.
        plan: tasks, contenders and what they have in common.
    """

    stages: tuple[PlanStage, ...]
    known: tuple[Result, ...]
    workers: int
    device: DeviceFacts
    plan: CampaignPlan


def worker_count(device: DeviceFacts | None = None, devices: int = 1) -> int:
    """Five judges for eight cores (small models are bound by the host), as memory allows, and one
    on each of the `devices` at least."""
    room = device.memory_bytes // WORKER_BYTES if device is not None and device.is_cuda else MOST_WORKERS
    return max(devices, min(devices * min(MOST_WORKERS, room), (os.cpu_count() or 2) * 5 // 8))


async def run_suite(
    survey: Survey,
    config: RunConfig,
    wiring: CampaignWiring | None = None,
    go_on: Callable[[SuitePlan], bool] = lambda _: True,
) -> tuple[Result, ...]:
    """Measure what is not known yet; returns everything that is known in the end.

    Args:
        survey: what is measured.
        config: what all contenders have in common.
        wiring: the parts that can be exchanged.
        go_on: shown the plan; nothing is measured or written if it says no.

    Raises:
        UserError: a target, a contender or the device cannot be used.
        BoundaryError: no judge could be started, or the disk refuses.
    """
    began, wiring = time.monotonic(), wiring or CampaignWiring()
    far = remote(config.engine, survey.workers) if wiring.executor is None else None
    here = config.engine.devices if far is None else ()
    starts, places = gpus.starts(here), gpus.entries(here)
    size = survey.workers or worker_count(devices=len(starts))
    owner = wiring.executor or far or WorkerPool(starts, size, places)
    async with aclosing(owner):
        device = await owner.facts(config.evaluate.device)
        workers = survey.workers or (far.size if far else worker_count(device, len(starts)))
        if isinstance(owner, WorkerPool):
            await owner.shrink(workers)
        deadline = began + 60.0 * survey.minutes if survey.minutes is not None else float("inf")
        suite, out = _Suite(survey, config, owner, device, workers), survey.out
        alone = alone_seconds(config.evaluate, survey.effort)
        order = Order(suite.cells, survey.candidates, workers, alone, deadline)
        if not go_on(SuitePlan(order.stages(), tuple(suite.known), workers, device, suite.plan)):
            return tuple(suite.known)
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
        found = list(suite.known)

        def keep(result: Result) -> None:
            found.append(result)
            wiring.on_result(result)

        seconds = None if survey.minutes is None else max(0.0, deadline - time.monotonic())
        with closing(RunLock(out, time.time())):
            await Scheduler(suite.work, order, replace(wiring, executor=owner, on_result=keep), seconds).run()
        return tuple(found)


class _Suite:
    """The cells of a suite, with what is known of each."""

    def __init__(self, survey: Survey, config: RunConfig, owner: Executor, device: DeviceFacts, workers: int) -> None:
        names = survey.contenders or (RECIPES, *(baseline.name for baseline in for_device(device.is_cuda)))
        table = CampaignConfig(survey.targets, names, precision=survey.precisions, concurrency=workers)
        plan = make_plan(CampaignFile(table, config))
        out, (which, of) = survey.out, survey.part
        self.plan = replace(plan, tasks=plan.tasks[which - 1 :: of])
        for contender in plan.contenders:
            require_device(contender, device.is_cuda)
        self._device = device
        self._own = store.read_results([out]) if out.is_dir() else ()
        self._all = (*self._own, *store.read_results(survey.have))
        self._terms = ResultTerms(
            config.evaluate, survey.effort, survey.command, survey.commit or commit(), workers, survey.share_caches
        )
        self._winners = {
            one.source: Histories.read([Path(one.source)], self._all) for one in plan.contenders if one.measures_winners
        }
        explorer = survey.explorer or explorer_of(owner, config.engine)
        limits = RecipeLimits(survey.candidates, survey.recipe_minutes, Histories.read(survey.known), explorer)
        self.known: list[Result] = []
        self.cells = tuple(self._progress(out, limits))
        places = {(one.task, one.precision) for one in self.known}
        self.known += [one for one in self._own if one.beside and (one.task, one.precision) in places]
        self.work = CellWork(self.plan, self.cells, out, self._terms, limits, self._winners)

    def _progress(self, out: Path, limits: RecipeLimits) -> Iterator[CellProgress]:
        """Each cell, the known ones finished, and those begun whose journal can be carried on."""
        tasks: dict[str, Task | None] = {}
        seen: set[tuple[str, str, Precision]] = set()
        for index, cell in enumerate(self.plan.cells()):
            target = cell.task.target
            if target not in tasks:
                tasks[target] = _read(cell, out)
            task = tasks[target]
            key = (task.id if task else cell.task.name), cell.contender.name, cell.precision
            if key in seen:
                continue
            seen.add(key)
            one = CellProgress(replace(cell, folder=self._folder(cell, task, limits)), index)
            known = self._known(one.cell, task) if task is not None else None
            if known is not None:
                self.known.append(known)
                one.state = CellState.FINISHED
            elif cell.contender.searches and figures_of_run(campaigns.run_folder(out, one.cell.folder)) is not None:
                one.state = CellState.BEGUN
            yield one

    def _known(self, cell: Cell, task: Task) -> Result | None:
        """The result that is there already; winners known only elsewhere are measured again."""
        blank, contender = self._terms.blank(cell, task, self._device), cell.contender
        if contender.searches:
            return known_result(blank, self._all)
        candidate = candidate_of(contender, task, cell.precision, self._winners.get(contender.source, Histories()))
        if candidate.missing:
            return None
        blank = replace(blank, candidate_digest=digest(candidate.source) if candidate.source else "")
        results = self._own if contender.measures_winners else self._all
        return next((one for one in results if blank.repeats(one)), None)

    def _folder(self, cell: Cell, task: Task | None, limits: RecipeLimits) -> str:
        """The name of a cell's folder: another one if anything changed that decides the run."""
        config = encode(self.plan.config_of(cell))
        terms = [config, limits.candidates, limits.minutes, task.source if task else "", self._device.versions]
        text = json.dumps([*terms, self._device.name], sort_keys=True, default=str)
        return f"{cell.folder}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def _read(cell: Cell, out: Path) -> Task | None:
    """The task of a cell, None if it cannot be used: then it fails when its turn comes."""
    try:
        return task_of(cell.task, campaigns.run_folder(out, cell.folder))
    except UserError:
        return None
