"""Measures whole suites with all baselines and the recipes, in slices, on a machine that is lent for minutes.

Run `PYTHONPATH=src python3 benchmarks/suite_on_device.py --out FOLDER --minutes 9 [--have benchmarks/results]` again
and again until nothing is left; it needs torch, numpy, typer, rich, jinja2 and cloudpickle. Several judges build side
by side and time alone. Every result is appended to FOLDER/results-DATE.jsonl as soon as it is there, what a search over
recipes tried to FOLDER/trails-DATE.jsonl; what FOLDER and `--have` hold already is not measured again. The most
valuable results come first: recipes and max-autotune on the first suite, then the other baselines, then the next suite
(`--together`: all baselines of a task in one go, which saves preparing it twice). `--dry-run` prints the plan with the
time that it should take.

`--winners FOLDER/trails-DATE.jsonl` measures what searches found again instead of searching: with few seats nothing
but what is timed is at work, and models of many small kernels are timed as on a quiet machine.

On a machine with several GPUs, `benchmarks/on_every_gpu.sh FOLDER [options]` runs one such program for each.

`--eager-only` measures eager alone and compares its times with benchmarks/published; `--lint` tries trivial answers on
every task at full size (FOLDER/lint-DATE.jsonl). Tasks may be named in place of suites.
"""

import argparse
import asyncio
import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pike.api.opponents import tasks_named
from pike.core.agent import Context, Proposal
from pike.core.codec import decode
from pike.core.config import EngineConfig, RunConfig, StrategyConfig
from pike.core.device import DeviceFacts
from pike.core.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest, Precision, Status
from pike.core.results import Contender, ContenderKind, Provenance, Result, digest, trimmed
from pike.core.step import Role
from pike.core.task import Task
from pike.engine import Wiring, originals, start
from pike.engine.contest import Contest, Job, OutOfTime, Seat
from pike.engine.executors import OnStage
from pike.engine.opponents import Batch, Notebook, device_facts, opponents_named, result_of_run
from pike.engine.survey import place_of
from pike.recipes import RecipeAgent
from pike.recipes.compose import proposal
from pike.recipes.explored import Explored, explore, problem_of
from pike.report.published import read_published
from pike.report.results import stem_of, suite_of
from pike.store import ResultLines, read_results

ROOT = Path(__file__).resolve().parent.parent
PRECISIONS = {"level3-pike": "half,tf32,same", "level5": "same,half"}
"""Level 5 has its own dtypes, so what its tasks are written in comes first."""
FIRST = ("compile:max-autotune",)
OTHERS = ("cuda-graph", "compile:reduce-overhead", "compile", "tensorrt", "eager")
ON_CPU = ("eager", "compile")
RECIPES = Contender("recipes", ContenderKind.RECIPES)

# What things take on one H100, for the plan: 0.8 s alone for each candidate and 5 to 8 s until a child has started were
# measured (docs/log.md, evaluations_per_hour); how long compilers take there is a guess between 15 and 40 s, and half
# as much again for autotuning.
ALONE_SECONDS, CHILD_SECONDS, TASK_SECONDS = 0.8, 6.0, 8.0
BUILD_SECONDS = {
    "eager": 0.0, "cuda-graph": 2.0, "compile": 25.0, "compile:reduce-overhead": 25.0, "compile:max-autotune": 45.0,
    "compile:max-autotune-no-cudagraphs": 45.0, "tensorrt": 60.0 if importlib.util.find_spec("torch_tensorrt") else 0.0,
}  # fmt: skip
FINAL_SECONDS, GRACE_SECONDS = 15.0, 8.0


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


@dataclass(frozen=True)
class SeatExecutor:
    """A seat's judge, as a run's executor: it has prepared the task for whoever comes next."""

    seat: Seat
    known: DeviceFacts

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        try:
            return await asyncio.to_thread(self.seat.evaluate, request)
        except OutOfTime:
            return Evaluation(Status.INFRA_ERROR, "the slice is over")

    async def facts(self, device: str) -> DeviceFacts:
        return self.known

    async def aclose(self) -> None:
        """Nothing: the seat goes on."""


@dataclass
class Restrained:
    """The recipe agent, until it has proposed so many candidates or its time is up; what won before comes first."""

    agent: RecipeAgent
    left: int
    deadline: float
    first: Proposal | None = None

    async def act(self, context: Context) -> Proposal:
        if context.step.role is Role.BRAINSTORM:
            return await self.agent.act(context)
        if self.left <= 0 or time.monotonic() > self.deadline:
            return Proposal(author="recipes", failure="as many as were asked for were tried", exhausted=True)
        self.left -= 1
        first, self.first = self.first, None
        return first or await self.agent.act(context)


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
    expected_seconds: float

    def results(self, seat: Seat) -> Iterator[Result]:
        blank = blank_for(self.task, self.precision, self.notebook)
        known = self.notebook.earlier(blank)
        yield known if known is not None else self.measured(seat, blank)

    def measured(self, seat: Seat, blank: Result) -> Result:
        place, began = blank.provenance, time.monotonic()
        config = RunConfig(
            self.task.id, StrategyConfig("recipes"), evaluate=place.options,
            engine=EngineConfig(concurrency=1, judges=1, finalists=1),
        )  # fmt: skip
        known = self.untried()
        best = max(self.speeds().items(), key=lambda one: one[1], default=((), 0.0))
        first = proposal(self.task, best[0], known.adapted) if best[1] and known.space.applies(best[0]) else None
        agent = Restrained(RecipeAgent(lambda: known), self.candidates, began + 60.0 * self.minutes, first)
        wiring = Wiring(SeatExecutor(seat, place.device), load=None, agents=dict.fromkeys(Role, agent),
                        handle_signals=False)  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="pike-suite-") as folder:
            found = asyncio.run(start(self.task, config, Path(folder) / "run", wiring))
        seconds, source = time.monotonic() - began, found.best.source if found.best else ""
        flat = found.flat()
        tried = {name: flat[name] for name in ("trail", "declined", "counts", "notes", "stopped")}
        tried |= {"declined": agent.agent.declined(), "seconds": round(seconds, 1)}
        self.keep({"task": self.task.id, "precision": self.precision.value, **tried, "best": source})
        if seat.stopped and not found.finished:
            raise OutOfTime
        return result_of_run(blank, found, source, seconds)

    def speeds(self) -> dict[tuple[str, ...], float]:
        """What earlier searches found, by composition; 0 where it was refused."""
        trails = [one for search in self.earlier for one in search["trail"] if one["status"] != "infra-error"]
        return {tuple(one["recipes"]): one["speedup"] or 0.0 for one in trails}

    def untried(self) -> Explored:
        """What is known about the problem, without the compositions that earlier searches tried."""
        found = self.explore()
        found.space.ranked = tuple(names for names in found.space.ranked if names not in self.speeds())
        return found

    def explore(self) -> Explored:
        if self.explored is not None:
            return self.explored
        place = self.notebook.begin(self.task, self.precision, RECIPES).provenance
        return explore(problem_of(originals.load(self.task).reference, place.device, place.options))


def explorations(paths: Sequence[Path], facts: DeviceFacts) -> dict[tuple[str, str, str], tuple[Explored, int]]:
    """What `explore_recipes.py` found out for this device and this PyTorch: with the number of operators, by task, its
    digest and precision."""
    version = dict(facts.versions)["torch"].partition("+")[0]
    found = {}
    for known in (json.loads(text) for path in paths for text in path.read_text().splitlines()):
        if (known["device"], known["torch"]) == (facts.name, version):
            key = known["task"], known["task_digest"], known["precision"]
            found[key] = decode(Explored, known["explored"]), known["operators"]
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

    def results(self, seat: Seat) -> Iterator[Result]:
        blank = blank_for(self.task, self.precision, self.notebook)
        source, tried = self.found["best"], self.found["trail"]
        blank = replace(blank, candidate_digest=digest(source) if source else "", candidates=len(tried))
        if not source:
            yield replace(blank, original=True, missing="")
            return
        began = time.monotonic()
        request = EvaluationRequest(self.task, source, blank.provenance.options, Effort.FINAL)
        evaluation = trimmed(seat.evaluate(request))
        best = max((one for one in tried if one["speedup"]), key=lambda one: one["speedup"])
        faster = evaluation.timing is not None and evaluation.timing.faster
        recipes, seconds = tuple(best["recipes"]) if faster else (), round(time.monotonic() - began, 3)
        measured = replace(blank, evaluation=evaluation, missing="", recipes=recipes, seconds=seconds)
        yield replace(measured, original=not faster)


def searches_in(paths: Sequence[Path]) -> dict[tuple[str, str], list[dict]]:
    """Earlier searches by task and precision."""
    found: dict[tuple[str, str], list[dict]] = {}
    for search in (json.loads(text) for path in paths for text in path.read_text().splitlines()):
        found.setdefault((search["task"], search["precision"]), []).append(search)
    return found


def winners_in(paths: Sequence[Path]) -> dict[tuple[str, str], dict]:
    """What searches found, by task and precision: of several searches what was fastest in its own."""

    def speed(search: dict) -> float:
        return max((one["speedup"] or 0.0 for one in search["trail"]), default=0.0) if search["best"] else 0.0

    return {cell: max(searches, key=speed) for cell, searches in searches_in(paths).items()}


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


@dataclass(frozen=True)
class Stage:
    """Jobs of one kind, for the plan."""

    name: str
    jobs: Sequence[Job]
    alone_seconds: float

    def seconds(self, seats: int) -> float:
        """All seats busy, and all but one waiting while that one times: a compiler inside a first call makes way."""
        each = [job.all_seconds if isinstance(job, Cell) else job.expected_seconds for job in self.jobs]
        longest = max(each, default=0.0)
        work = sum(each) - self.alone_seconds
        return max(work / seats + self.alone_seconds, longest)


def stages(given: argparse.Namespace, notebook: Notebook, is_cuda: bool, keep: Callable) -> list[Stage]:
    """Everything there is to do, the most valuable first."""
    found, winners = [], winners_in(given.winners)
    known, earlier = explorations(given.explored, notebook.place.device), searches_in(given.known)
    for target in given.targets:
        tasks = part_of(tasks_named([target]), given.part)
        if not tasks:
            continue
        precisions = [Precision(word) for word in (given.precision or precisions_of(tasks[0])).split(",")]
        if given.eager_only:
            found.append(baseline_stage(tasks, Precision.SAME, ("eager",), notebook, is_cuda))
            continue
        first, others = chosen(given, is_cuda)
        for precision in precisions:
            cells = []
            for task in tasks:
                explored, operators = known.get((task.id, digest(task.source), precision.value), (None, 0))
                jobs: list[Job] = []
                if winners:
                    one = winners.get((task.id, precision.value))
                    jobs += [WinnerJob(task, precision, notebook, one)] if one else []
                elif not given.no_recipes and notebook.earlier(blank_for(task, precision, notebook)) is None:
                    seconds = TASK_SECONDS + given.candidates * (15.0 + operators / 10.0) + FINAL_SECONDS
                    jobs.append(
                        RecipesJob(
                            task,
                            precision,
                            notebook,
                            given.recipe_minutes,
                            given.candidates,
                            keep,
                            explored,
                            earlier.get((task.id, precision.value), []),
                            seconds,
                        )
                    )
                jobs += [] if given.all_recipes_first else baseline_jobs([task], precision, first, notebook, is_cuda)
                cells += [Cell(tuple(jobs))] if jobs else []
            cells.sort(key=lambda cell: -cell.all_seconds)  # what takes longest must not be what is begun last
            alone = given.candidates * ALONE_SECONDS + given.timing_seconds + len(first) * ALONE_SECONDS
            found.append(
                Stage(f"recipes, {', '.join(first)} on {target}, {precision.value}", cells, alone * len(cells))
            )
            if given.all_recipes_first:
                found.append(baseline_stage(tasks, precision, first, notebook, is_cuda))
        found += [baseline_stage(tasks, precision, others, notebook, is_cuda) for precision in precisions]
    return [stage for stage in found if stage.jobs]


def part_of(tasks: Sequence[Task], part: str) -> Sequence[Task]:
    """The tasks that one of several machines or GPUs measures; `part` is K/N."""
    which, _, of = part.partition("/")
    return tasks[int(which) - 1 :: int(of)]


def precisions_of(task: Task) -> str:
    return PRECISIONS.get(suite_of(task.id).removesuffix(":small"), "same,tf32,half")


def chosen(given: argparse.Namespace, is_cuda: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The baselines that come first, and the others."""
    names = given.baselines.split(",") if given.baselines else (*FIRST, *OTHERS) if is_cuda else (*FIRST, *ON_CPU)
    if given.together:
        return tuple(names), ()
    return tuple(name for name in names if name in FIRST), tuple(name for name in names if name not in FIRST)


def baseline_stage(
    tasks: Sequence[Task], precision: Precision, names: tuple[str, ...], notebook: Notebook, is_cuda: bool
) -> Stage:
    """The baselines that were not measured before."""
    jobs = baseline_jobs(tasks, precision, names, notebook, is_cuda)
    count = sum(len(job.opponents) for job in jobs)
    title = f"{', '.join(names)} on {suite_of(tasks[0].id) or tasks[0].id}, {precision.value}"
    return Stage(title, jobs, ALONE_SECONDS * count)


def baseline_jobs(
    tasks: Sequence[Task], precision: Precision, names: tuple[str, ...], notebook: Notebook, is_cuda: bool
) -> list[Batch]:
    """One for each task that has a baseline that was not measured before."""
    opponents, jobs = opponents_named(names, is_cuda), []
    for task in tasks:
        new = Batch(task, precision, opponents, notebook).unknown()
        building = sum(BUILD_SECONDS.get(one.contender.name, 0.0) for one in new.opponents)
        each = TASK_SECONDS + building + len(new.opponents) * (CHILD_SECONDS + ALONE_SECONDS)
        jobs += [replace(new, expected_seconds=each)] if new.opponents else []
    return jobs


def show_plan(planned: list[Stage], seats: int, minutes: float) -> None:
    """What is to be done, and how long it should take."""
    total = 0.0
    for stage in planned:
        seconds = stage.seconds(seats)
        total += seconds
        print(f"{stage.name:<90} {len(stage.jobs):>4} jobs {seconds / 60:6.1f} min, by then {total / 60:6.1f} min")
    print(f"{total / 60:.1f} minutes with {seats} seats, {total / 60 / minutes:.1f} slices of {minutes:g} minutes")


def line(result: Result) -> str:
    """One result, for the log."""
    head = f"{result.task:<38} {result.precision.value:<5} {result.contender.name:<24}"
    if result.speedup is None or result.evaluation is None or result.evaluation.timing is None:
        refusal = f"{result.evaluation.status.value}: {result.evaluation.reason}" if result.evaluation else ""
        return f"{head} {result.missing or refusal or 'the original stays'}"[:240]
    timing, low, high = result.evaluation.timing, *result.evaluation.timing.speedup_ci95
    words = f"{timing.reference_ms:9.4f} ms {timing.speedup:6.2f}x ({low:.2f} to {high:.2f})"
    stays = " the original stays" if result.original else ""
    return f"{head} {words} {result.seconds:5.0f} s {' + '.join(result.recipes)}{stays}"


def compare_eager(results: Sequence[Result]) -> None:
    """Eager times of this slice beside those of the published tasks."""
    published = read_published(ROOT / "benchmarks" / "published", tuple(PRECISIONS))
    for result in results:
        times = published.times_of(suite_of(result.task))
        theirs = times.eager_ms(stem_of(result.task)) if times else None
        timing = result.evaluation.timing if result.evaluation else None
        if timing is None:
            print(f"{result.task:<38} {line(result)[45:]}")
            continue
        words = f"published {theirs:9.4f} ms  ratio {timing.reference_ms / theirs:5.2f}" if theirs else ""
        print(f"{result.task:<38} eager {timing.reference_ms:9.4f} ms  {words}")


def typed() -> str:
    """What was typed, without the folder of this machine that results go to."""
    words = list(sys.argv[1:])
    if "--out" in words:
        words[words.index("--out") + 1] = "FOLDER"
    return shlex.join(["python3", "benchmarks/suite_on_device.py", *words])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=["level3-pike", "level5"], help="suites or tasks, in order")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--have", type=Path, nargs="*", default=[], help="files or folders with earlier results")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--precision", help="for example half,tf32,same; by default what the suite is about")
    parser.add_argument("--baselines", help="names, comma separated; published:FOLDER too")
    parser.add_argument("--together", action="store_true", help="all baselines of a task one after the other")
    parser.add_argument("--winners", type=Path, nargs="*", default=[], help="trails of searches, measured again")
    parser.add_argument("--no-recipes", action="store_true")
    parser.add_argument("--candidates", type=int, default=3, help="the most of one search over recipes")
    parser.add_argument("--recipe-minutes", type=float, default=3.0, help="after which a search begins no candidate")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="trails: what won is tried first, then new")
    parser.add_argument("--explored", type=Path, nargs="*", default=[], help="what explore_recipes.py wrote")
    parser.add_argument("--all-recipes-first", action="store_true", help="max-autotune after all searches")
    parser.add_argument("--seats", type=int, default=0, help="by default five of eight cores, at most 10")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--effort", choices=[one.value for one in Effort], default="search", help="of baselines")
    parser.add_argument("--timing-seconds", type=float, default=2.0, help="the most for a final measurement")
    parser.add_argument("--timeout-seconds", type=float, default=180.0, help="for building and running a candidate")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads of both sides")
    parser.add_argument("--own-caches", action="store_true", help="baselines share no compiler caches")
    parser.add_argument("--part", default="1/1", help="for example 2/4: every fourth task from the second on")
    parser.add_argument("--commit", default="", help="where the machine has no checkout")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--eager-only", action="store_true")
    parser.add_argument("--lint", action="store_true")
    return parser.parse_args()


def place(given: argparse.Namespace, seats: int) -> Provenance:
    """Where everything of this slice is measured."""
    options = EvaluateOptions(
        device=given.device, timeout_seconds=given.timeout_seconds, threads=given.threads,
        max_timing_seconds=given.timing_seconds,
    )  # fmt: skip
    config = RunConfig(evaluate=options, engine=EngineConfig(judges=seats))
    found = place_of(config, device_facts(given.device), Effort(given.effort), typed(), seats)
    return replace(found, commit=given.commit or found.commit, shared_caches=not given.own_caches)


def keeper(path: Path) -> Callable[[dict], None]:
    """Appends one line to a file for each thing it is given, from any thread."""
    lock = threading.Lock()

    def keep(found: dict) -> None:
        with lock, path.open("a") as file:
            file.write(json.dumps(found) + "\n")

    return keep


def lint_stages(given: argparse.Namespace, path: Path, device: str) -> list[Stage]:
    write = keeper(path)
    known = [json.loads(text) for file in (path, *given.have) if file.is_file() for text in lint_lines(file)]
    done = {(found["task"], found["precision"]) for found in known if "sound" in found}

    def keep(found: dict) -> None:
        write(found)
        print(f"{found['task']:<38} {'sound' if found.get('sound') else json.dumps(found)[:300]}", flush=True)

    precision = Precision(given.precision or "half")
    jobs: list[Job] = [
        LintJob(task, precision, device, keep)
        for target in given.targets
        for task in part_of(tasks_named([target]), given.part)
        if (task.id, precision.value) not in done
    ]
    return [Stage(f"lint, {precision.value}", jobs, 0.0)]


def lint_lines(path: Path) -> list[str]:
    return [text for text in path.read_text().splitlines() if text.startswith("{") and text.endswith("}")]


def main() -> None:
    given = arguments()
    began = time.monotonic()
    given.out.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d")
    # The others are left to what is being timed: eager on small models is bound by the host.
    seats = given.seats or max(1, min(10, (os.cpu_count() or 2) * 5 // 8))
    where = place(given, seats)
    had = [path for path in (given.out, *given.have) if path.exists()]
    notebook = Notebook(where, read_results(had))
    lint_path = given.out / f"lint-{stamp}.jsonl"
    is_cuda = where.device.is_cuda
    if given.lint:
        planned = lint_stages(given, lint_path, where.device.device)
    else:
        planned = stages(given, notebook, is_cuda, keeper(given.out / f"trails-{stamp}.jsonl"))
    print(f"{where.device.name}, {seats} seats, {len(notebook.known)} results known", flush=True)
    show_plan(planned, seats, given.minutes)
    if given.dry_run:
        return
    lines, seen = ResultLines(given.out / f"results-{stamp}.jsonl"), []
    known = {id(result) for result in notebook.known}

    def keep(result: Result) -> None:
        seen.append(result)
        if id(result) not in known:
            lines.put(result)
            print(f"{time.monotonic() - began:5.0f} s  {line(result)}", flush=True)

    contest = Contest(seats, keep, seconds=60.0 * given.minutes - (time.monotonic() - began))
    left = contest.run(job for stage in planned for job in stage.jobs)
    if given.eager_only:
        compare_eager(seen)
    new = sum(id(result) not in known for result in seen)
    jobs = sum(len(stage.jobs) for stage in planned)
    print(f"{(time.monotonic() - began) / 60:.1f} minutes: {new} new results, {len(left)} of {jobs} jobs left")


if __name__ == "__main__":
    main()
