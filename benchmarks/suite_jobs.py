"""What one seat of a slice does from beginning to end: searches, winners, lint; see `suite_on_device.py`.

Knows how a search over recipes is carried out with the seat's judge, which has prepared the task already, and what of
earlier searches is used. Does not know what is worth most or what the command line says.
"""

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pike.core.agent import Context, Proposal
from pike.core.config import EngineConfig, RunConfig, StrategyConfig
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.evaluation import Effort, Evaluation, EvaluationRequest, Precision, Status
from pike.core.results import Contender, ContenderKind, Result, digest, trimmed
from pike.core.step import Role
from pike.core.task import Task
from pike.engine import Wiring, originals, start
from pike.engine.contest import Job, OutOfTime, Seat
from pike.engine.executors import OnStage
from pike.engine.opponents import Notebook, result_of_run, unusable
from pike.recipes import RecipeAgent
from pike.recipes.compose import proposal
from pike.recipes.explored import Explored, explore, problem_of

ROOT = Path(__file__).resolve().parent.parent
RECIPES = Contender("recipes", ContenderKind.RECIPES)
GRACE_SECONDS = 8.0


@dataclass(frozen=True)
class Command:
    """A program that one seat runs, and that dies with the slice."""

    words: list[str]
    seat: Seat
    on_gpu: bool = False

    def run(self) -> subprocess.CompletedProcess[str]:
        paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        if self.on_gpu:  # capturing models on the host must not stand in the way of what is timed
            environment.setdefault("OMP_NUM_THREADS", "2")
        process = subprocess.Popen(
            self.words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
            start_new_session=True,
        )  # fmt: skip
        self.seat.guard(lambda: end(process))
        try:
            out, err = process.communicate()
        finally:
            self.seat.guard(None)
        if self.seat.stopped:
            raise OutOfTime
        return subprocess.CompletedProcess(self.words, process.returncode, out, err)


def end(process: subprocess.Popen[str]) -> None:
    """Ask a program to end, so that it takes its judges along, and insist after a moment."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        threading.Timer(GRACE_SECONDS, lambda: process.poll() is None and process.kill()).start()


@dataclass
class SeatExecutor:
    """A seat's judge, as a run's executor: it has prepared the task for whoever comes next."""

    seat: Seat
    known: DeviceFacts
    cut_off: bool = False

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        try:
            return await asyncio.to_thread(self.seat.evaluate, request)
        except OutOfTime:
            self.cut_off = True
            return Evaluation(Status.INFRA_ERROR, "the slice is over")

    async def facts(self, device: str) -> DeviceFacts:
        return self.known

    async def aclose(self) -> None:
        """Nothing: the seat goes on."""


@dataclass
class Restrained:
    """The recipe agent, until it has proposed so many candidates or its time is up, which begins with its own first
    one: what won before comes before it."""

    agent: RecipeAgent
    left: int
    seconds: float
    first: Proposal | None = None
    deadline: float = math.inf

    async def act(self, context: Context) -> Proposal:
        if context.step.role is Role.BRAINSTORM:
            return await self.agent.act(context)
        if self.left <= 0 or time.monotonic() > self.deadline:
            return Proposal(author="recipes", failure="as many as were asked for were tried", exhausted=True)
        self.left -= 1
        first, self.first = self.first, None
        if first:
            return first
        self.deadline = min(self.deadline, time.monotonic() + self.seconds)
        return await self.agent.act(context)


@dataclass(frozen=True)
class RecipesJob:
    """A search over recipes on one task at one precision, as `pike optimize --strategy recipes` does it, but with the
    seat's judge; what it tried goes to a file."""

    task: Task
    precision: Precision
    notebook: Notebook
    minutes: float
    candidates: int
    keep: Callable[[dict], None]
    explored: Explored | None
    earlier: Sequence[dict]
    stricter: Sequence[dict]
    expected_seconds: float

    def results(self, seat: Seat) -> Iterator[Result]:
        blank = blank_for(self.task, self.precision, self.notebook)
        known = self.notebook.earlier(blank)
        try:
            yield known if known is not None else self.measured(seat, blank)
        except UserError as error:
            yield unusable(blank, error)

    def measured(self, seat: Seat, blank: Result) -> Result:
        place, began = blank.provenance, time.monotonic()
        config = RunConfig(
            self.task.id, StrategyConfig("recipes"), evaluate=place.options,
            engine=EngineConfig(concurrency=1, judges=1, finalists=1),
        )  # fmt: skip
        known = self.untried()
        best = self.best_before(known)
        first = proposal(self.task, best, known.adapted) if best else None
        agent = Restrained(RecipeAgent(lambda: known), self.candidates, 60.0 * self.minutes, first)
        executor = SeatExecutor(seat, place.device)
        wiring = Wiring(executor, load=None, agents=dict.fromkeys(Role, agent),
                        handle_signals=False)  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="pike-suite-") as folder:
            found = asyncio.run(start(self.task, config, Path(folder) / "run", wiring))
        seconds, source = time.monotonic() - began, found.best.source if found.best else ""
        flat = found.flat()
        tried = {name: flat[name] for name in ("trail", "declined", "counts", "notes", "stopped")}
        tried |= {"declined": agent.agent.declined(), "seconds": round(seconds, 1)}
        self.keep({"task": self.task.id, "precision": self.precision.value, **tried, "best": source})
        if executor.cut_off:
            raise OutOfTime
        return result_of_run(blank, found, source, seconds)

    def best_before(self, known: Explored) -> tuple[str, ...]:
        """What was fastest in earlier searches, where none found anything in those at stricter precisions; empty where
        it does not apply."""
        for searches in (self.earlier, self.stricter):
            names, speed = max(speeds(searches).items(), key=lambda one: one[1], default=((), 0.0))
            if speed:
                return names if known.space.applies(names) else ()
        return ()

    def untried(self) -> Explored:
        """What is known about the problem, without the compositions that earlier searches tried."""
        found, tried = self.explore(), speeds(self.earlier)
        found.space.ranked = tuple(names for names in found.space.ranked if names not in tried)
        return found

    def explore(self) -> Explored:
        if self.explored is not None:
            return self.explored
        place = self.notebook.begin(self.task, self.precision, RECIPES).provenance
        return explore(problem_of(originals.load(self.task).reference, place.device, place.options))


def speeds(searches: Sequence[dict]) -> dict[tuple[str, ...], float]:
    """What searches found, by composition; 0 where it was refused, at the latest when it was measured as a finalist."""
    trails = [(one, search["best"]) for search in searches for one in search["trail"] if one["status"] != "infra-error"]
    return {tuple(one["recipes"]): (one["speedup"] or 0.0) if best else 0.0 for one, best in trails}


def explorations(paths: Sequence[Path], facts: DeviceFacts) -> dict[tuple[str, str, str], tuple[Explored, int]]:
    """What `explore_recipes.py` found out for this device and this PyTorch: with the number of operators, by task, its
    digest and precision."""
    version = dict(facts.versions)["torch"].partition("+")[0]
    found = {}
    for known in (json.loads(text) for path in paths for text in path.read_text().splitlines()):
        if (known["device"], known["torch"]) == (facts.name, version):
            key = known["task"], known["task_digest"], known["precision"]
            found[key] = Explored.of(known["explored"]), known["operators"]
    return found


@dataclass(frozen=True)
class Cell:
    """Everything about one task at one precision, one after the other, so that the judge prepares the task once."""

    jobs: tuple[Job, ...]

    @property
    def expected_seconds(self) -> float:
        """Of what comes first: results are kept one by one."""
        return self.jobs[0].expected_seconds

    @property
    def all_seconds(self) -> float:
        return sum(job.expected_seconds for job in self.jobs)

    def results(self, seat: Seat) -> Iterator[Result]:
        for job in self.jobs:
            yield from job.results(seat)


@dataclass(frozen=True)
class WinnerJob:
    """What an earlier search found, measured again as thoroughly as any finalist."""

    task: Task
    precision: Precision
    notebook: Notebook
    found: dict
    expected_seconds: float = 45.0

    def blank(self) -> Result:
        """The record of a measurement that was not made yet."""
        source, tried = self.found["best"], self.found["trail"]
        blank = blank_for(self.task, self.precision, self.notebook)
        return replace(blank, candidate_digest=digest(source) if source else "", candidates=len(tried))

    def results(self, seat: Seat) -> Iterator[Result]:
        blank, source, tried = self.blank(), self.found["best"], self.found["trail"]
        if not source:
            yield replace(blank, original=True, missing="")
            return
        began = time.monotonic()
        request = EvaluationRequest(self.task, source, blank.provenance.options, Effort.FINAL)
        try:
            evaluation = trimmed(seat.evaluate(request))
        except UserError as error:
            yield unusable(blank, error)
            return
        best = max((one for one in tried if one["speedup"]), key=lambda one: one["speedup"])
        faster = evaluation.timing is not None and evaluation.timing.faster
        recipes, seconds = tuple(best["recipes"]) if faster else (), round(time.monotonic() - began, 3)
        measured = replace(blank, evaluation=evaluation, missing="", recipes=recipes, seconds=seconds)
        yield replace(measured, original=not faster and evaluation.status is not Status.INFRA_ERROR)


def searches_in(paths: Sequence[Path]) -> dict[tuple[str, str], list[dict]]:
    """Earlier searches by task and precision."""
    found: dict[tuple[str, str], list[dict]] = {}
    for search in (json.loads(text) for path in paths for text in path.read_text().splitlines()):
        found.setdefault((search["task"], search["precision"]), []).append(search)
    return found


def winners_in(paths: Sequence[Path], results: Iterable[Result] = ()) -> dict[tuple[str, str], dict]:
    """What searches found, by task and precision: of several searches the one whose file has the newest of these
    results, on whatever device, else what was fastest in its own."""
    newest = {
        (one.task, one.precision.value, one.candidate_digest): one.provenance.date
        for one in sorted(results, key=lambda one: one.provenance.date)
        if one.contender == RECIPES and one.settled
    }

    def worth(search: dict) -> tuple[str, float]:
        if not search["best"]:
            return "", 0.0
        speed = max((one["speedup"] or 0.0 for one in search["trail"]), default=0.0)
        return newest.get((search["task"], search["precision"], digest(search["best"])), ""), speed

    return {cell: max(searches, key=worth) for cell, searches in searches_in(paths).items()}


def blank_for(task: Task, precision: Precision, notebook: Notebook) -> Result:
    """The record of a search that was not made yet: its winner is measured as thoroughly as any run's."""
    blank = notebook.begin(task, precision, RECIPES)
    return replace(blank, provenance=replace(blank.provenance, effort=Effort.FINAL, shared_caches=False))


@dataclass(frozen=True)
class LintJob:
    """Trivial answers on one task at full size; the report goes to a file of its own."""

    task: Task
    precision: Precision
    device: str
    keep: Callable[[dict], None]
    expected_seconds: float = 30.0

    def results(self, seat: Seat) -> Iterator[Result]:
        words = [sys.executable, "-m", "pike", "tasks", "--lint", self.task.id, "--device", self.device]
        began = time.monotonic()
        words += ["--precision", self.precision.value, "--json"]
        done = Command(words, seat, self.device.startswith("cuda")).run()
        try:
            found = json.loads(done.stdout.strip().splitlines()[-1])
        except (json.JSONDecodeError, IndexError):
            found = {"error": done.stderr[-500:]}
        found |= {
            "task": self.task.id,
            "precision": self.precision.value,
            "seconds": round(time.monotonic() - began, 1),
        }
        self.keep(found)
        yield from ()
