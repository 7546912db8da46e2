"""Measures whole suites with all baselines and the recipes, in slices, on a machine that is lent for minutes.

Run `PYTHONPATH=src python3 benchmarks/suite_on_device.py --out FOLDER --minutes 9 [--have benchmarks/results]` again
and again until nothing is left; it needs torch, numpy, typer, rich, jinja2 and cloudpickle. Several judges build side
by side and time alone. Every result is appended to FOLDER/results-DATE.jsonl as soon as it is there, what a search over
recipes tried to FOLDER/trails-DATE.jsonl; what FOLDER and `--have` hold already is not measured again. The most
valuable results come first: recipes and max-autotune on each task of the first suite, then the other baselines, then
the next suite. `--together` takes all baselines of a task in one go, `--all-recipes-first` none of them before all
searches are over. `--dry-run` prints the plan with the time that it should take.

A search begins at once where `benchmarks/explore_recipes.py` explored its task elsewhere (`--explored`), and with what
won before where there are trails of earlier searches (`--known`), at a stricter precision if need be.
`--winners FOLDER/trails-DATE.jsonl` measures what they found again instead of searching, unless FOLDER holds it: with
few seats nothing but what is timed is at work, and models of many small kernels are timed as on a quiet machine. Of
several searches that one counts whose file has the newest result (`--have`), on whatever device, so that what won on
one is measured on another.

On a machine with several GPUs, `benchmarks/on_every_gpu.sh FOLDER [options]` runs one such program for each.

`--eager-only` measures eager alone and compares its times with benchmarks/published; `--lint` tries trivial answers on
every task at full size (FOLDER/lint-DATE.jsonl). Tasks may be named in place of suites.
"""

import argparse
import importlib.util
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from suite_jobs import Cell, LintJob, RecipesJob, WinnerJob, blank_for, explorations, searches_in, winners_in

from pike.api.opponents import tasks_named
from pike.core.config import EngineConfig, RunConfig
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.evaluation import Effort, EvaluateOptions, Precision
from pike.core.results import Provenance, Result, digest
from pike.core.task import Task
from pike.engine.contest import Contest, Job
from pike.engine.opponents import Batch, Notebook, device_facts, opponents_named
from pike.engine.survey import place_of
from pike.report.published import read_published
from pike.report.results import stem_of, suite_of
from pike.store import ResultLines, read_results

ROOT = Path(__file__).resolve().parent.parent
PRECISIONS = {"level3-pike": "half,tf32,same", "level5": "same,half"}
"""Level 5 has its own dtypes, so what its tasks are written in comes first."""
FIRST = ("compile:max-autotune",)
OTHERS = ("cuda-graph", "compile:reduce-overhead", "compile", "tensorrt", "eager")
ON_CPU = ("eager", "compile")

# What things take on one H100, for the plan: 0.8 s alone for each candidate and 5 to 8 s until a child has started were
# measured (docs/log.md, evaluations_per_hour); how long compilers take there is a guess between 15 and 40 s, and half
# as much again for autotuning.
ALONE_SECONDS, CHILD_SECONDS, TASK_SECONDS = 0.8, 6.0, 8.0
BUILD_SECONDS = {
    "eager": 0.0, "cuda-graph": 2.0, "compile": 25.0, "compile:reduce-overhead": 25.0, "compile:max-autotune": 45.0,
    "compile:max-autotune-no-cudagraphs": 45.0, "tensorrt": 60.0 if importlib.util.find_spec("torch_tensorrt") else 0.0,
}  # fmt: skip
# With eight judges on an 80 GiB GPU the larger tasks found no memory (docs/log.md, 2026-11-23, on an H100).
SEAT_BYTES = 12 << 30
FINAL_SECONDS, CANDIDATE_SECONDS, OPERATOR_SECONDS = 15.0, 15.0, 0.1


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
    found, later = [], []
    first_jobs = first_jobs_of(given, notebook, keep)
    first, others = chosen(given, is_cuda)
    for target in given.targets:
        tasks = part_of(tasks_named([target]), given.part)
        if not tasks:
            continue
        precisions = [Precision(word) for word in (given.precision or precisions_of(tasks[0])).split(",")]
        if given.eager_only:
            found.append(baseline_stage(tasks, Precision.SAME, ("eager",), notebook, is_cuda))
            continue
        for precision in precisions:
            together = () if given.all_recipes_first else first
            cells = [
                Cell((*first_jobs(task, precision), *baseline_jobs([task], precision, together, notebook, is_cuda)))
                for task in tasks
            ]
            cells = sorted(
                (cell for cell in cells if cell.jobs), key=lambda cell: -cell.all_seconds
            )  # no long one last
            alone = given.candidates * ALONE_SECONDS + given.timing_seconds + len(together) * ALONE_SECONDS
            names = together if given.no_recipes else ("recipes", *together)
            title = f"{', '.join(names)} on {target}, {precision.value}"
            found.append(Stage(title, cells, alone * len(cells)))
            if given.all_recipes_first:
                later.append(baseline_stage(tasks, precision, first, notebook, is_cuda))
        rest = later if given.all_recipes_first else found
        rest += [baseline_stage(tasks, precision, others, notebook, is_cuda) for precision in precisions]
    return [stage for stage in (*found, *later) if stage.jobs]


def first_jobs_of(
    given: argparse.Namespace, notebook: Notebook, keep: Callable
) -> Callable[[Task, Precision], Sequence[Job]]:
    """What is done about recipes on a task: nothing, the winner of an earlier search measured again, or a search."""
    winners, earlier = winners_in(given.winners, notebook.known), searches_in(given.known)
    again = read_results([given.out]) if given.out.exists() else ()
    explored = explorations(given.explored, notebook.place.device)

    def jobs(task: Task, precision: Precision) -> Sequence[Job]:
        if given.winners:
            won = winners.get((task.id, precision.value))
            job = WinnerJob(task, precision, notebook, won) if won else None
            return [job] if job and not any(job.blank().repeats(one) for one in again) else []
        if given.no_recipes or notebook.earlier(blank_for(task, precision, notebook)) is not None:
            return []
        known, operators = explored.get((task.id, digest(task.source), precision.value), (None, 0))
        compiling = OPERATOR_SECONDS * operators if OPERATOR_SECONDS * operators < given.timeout_seconds else 0.0
        seconds = TASK_SECONDS + given.candidates * (CANDIDATE_SECONDS + compiling) + FINAL_SECONDS
        stricter = list(Precision)[: list(Precision).index(precision)]  # they stand in this order
        tried = earlier.get((task.id, precision.value), [])
        others = [search for one in stricter for search in earlier.get((task.id, one.value), [])]
        limits = given.recipe_minutes, given.candidates
        return [RecipesJob(task, precision, notebook, *limits, keep, known, tried, others, seconds)]

    return jobs


def part_of(tasks: Sequence[Task], part: str) -> Sequence[Task]:
    """The tasks that one of several machines or GPUs measures; `part` is K/N."""
    which, _, of = part.partition("/")
    return tasks[int(which) - 1 :: int(of)]


def precisions_of(task: Task) -> str:
    return PRECISIONS.get(suite_of(task.id).removesuffix(":small"), "same,tf32,half")


def chosen(given: argparse.Namespace, is_cuda: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The baselines that come first, and the others."""
    if given.no_baselines:
        return (), ()
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
    parser.add_argument("--no-baselines", action="store_true")
    parser.add_argument("--candidates", type=int, default=3, help="the most of one search over recipes")
    parser.add_argument("--recipe-minutes", type=float, default=3.0, help="from its first own candidate to its last")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="trails: what won is tried first, then new")
    parser.add_argument("--explored", type=Path, nargs="*", default=[], help="what explore_recipes.py wrote")
    parser.add_argument("--all-recipes-first", action="store_true", help="max-autotune after all searches")
    parser.add_argument("--seats", type=int, default=0, help="by default by cores and memory, at most 10")
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


def place(given: argparse.Namespace, facts: DeviceFacts, seats: int) -> Provenance:
    """Where everything of this slice is measured."""
    options = EvaluateOptions(
        device=given.device, timeout_seconds=given.timeout_seconds, threads=given.threads,
        max_timing_seconds=given.timing_seconds,
    )  # fmt: skip
    config = RunConfig(evaluate=options, engine=EngineConfig(judges=seats))
    found = place_of(config, facts, Effort(given.effort), typed(), seats)
    return replace(found, commit=given.commit or found.commit, shared_caches=not given.own_caches)


def seats_for(device: DeviceFacts) -> int:
    """How many judges build side by side: five of eight CPUs, because eager on small models is bound by the host, and
    as many as find memory on a GPU."""
    room = int(device.memory_bytes // SEAT_BYTES) if device.is_cuda else 10
    return max(1, min(10, (os.cpu_count() or 2) * 5 // 8, room))


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
    facts = device_facts(given.device)
    seats = given.seats or seats_for(facts)
    where = place(given, facts, seats)
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
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
