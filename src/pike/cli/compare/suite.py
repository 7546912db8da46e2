"""`pike suite`: all kinds of contenders on whole suites, in one table.

Knows the plan, the lines and the table that are printed. Does not measure (`api`).
"""

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from pike.api import suite as api
from pike.api.outputs import report as write_page
from pike.api.suite import Column, ResultsTable
from pike.api.views import FAST, has_results
from pike.cli import options as opt
from pike.cli.terminal import Terminal, table_of
from pike.core import figures
from pike.core.comparison.results import Result
from pike.core.errors import UserError
from pike.core.settings.merging import nearest
from pike.core.verdict.evaluation import Effort, Precision

Targets = Annotated[
    list[str],
    typer.Argument(metavar="TARGETS...", help="Suites, tasks of them (SUITE/ID), files, package.module:callable."),
]
Contenders = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="recipes, a strategy (see pike strategies), eager, cuda-graph, compile, compile:reduce-overhead, "
        "compile:max-autotune, compile:max-autotune-no-cudagraphs, tensorrt, published:FOLDER with one solution for "
        "each task, winners:FILE (what searches over recipes found, measured again), run:FOLDER (what finished runs "
        "there found, measured again), or a table's name in --config.",
        show_default="recipes and all baselines that are distinct on the device",
    ),
]
Precisions = Annotated[str, typer.Option(metavar="NAME,...", help="Arithmetic that is allowed: same, tf32, half.")]
Out = Annotated[Path, opt.folder("Where results are kept; the same command goes on.")]
Minutes = Annotated[
    float | None, opt.minutes("Stop everything after M minutes; what cannot end by then is not begun.", "no limit")
]
Workers = Annotated[
    int, opt.option("N", "Judges that work side by side.", "by cores and device memory, at most 10", min=0)
]
Have = Annotated[list[Path] | None, opt.option("PATH", "Results known elsewhere, not measured again; may be repeated.")]
Known = Annotated[
    list[Path] | None,
    opt.option(
        "PATH", "Histories of searches over recipes: what won is tried first, then what is new; may be repeated."
    ),
]
Candidates = Annotated[int, typer.Option(min=1, metavar="N", help="The most candidates of one search over recipes.")]
RecipeMinutes = Annotated[
    float, opt.option("M", "The time of one search over recipes, from its first new candidate.", min=0.0)
]
Timeout = Annotated[float | None, opt.option("SECONDS", "For building and running one candidate.", "900", min=1.0)]
Search = Annotated[bool, typer.Option("--search", help="Measure fixed candidates as briefly as a search does.")]
Part = Annotated[str, typer.Option(metavar="K/N", help="Every N-th task from the K-th on, for several GPUs.")]
ShareCaches = Annotated[
    bool, typer.Option("--share-caches", help="Have the baselines of a task share what compilers leave behind.")
]
Commit = Annotated[str, typer.Option(metavar="HASH", help="The commit of the source, where there is no checkout.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan, and how long it should take.")]


def suite(
    targets: Targets,
    contenders: Contenders = None,
    precision: Precisions = "same",
    out: Out = Path("runs/suite"),
    minutes: Minutes = None,
    workers: Workers = 0,
    have: Have = None,
    known: Known = None,
    candidates: Candidates = 3,
    recipe_minutes: RecipeMinutes = 3.0,
    timeout: Timeout = None,
    search: Search = False,
    part: Part = "1/1",
    share_caches: ShareCaches = False,
    commit: Commit = "",
    dry_run: DryRun = False,
    llm: opt.Llm = None,
    device: opt.Device = None,
    devices: opt.Devices = None,
    executor: opt.Executor = None,
    tolerance: opt.Tolerance = None,
    config: opt.Config = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    yes: opt.Yes = False,
) -> None:
    """Measure contenders on suites; what was measured before, and has not changed, is only read."""
    survey, terminal = _survey(dict(locals())), Terminal(as_json, quiet)
    limits = [] if timeout is None else [f"evaluate.timeout_seconds={timeout}"]
    terms: dict[str, object] = {"device": device, "devices": devices, "executor": executor}
    terms |= {"tolerance": tolerance, "config": config}
    terms["settings"] = [*(settings or ()), *limits]
    began = time.monotonic()

    def go_on(plan: api.SuitePlan) -> bool:
        if dry_run or not quiet:
            _show_plan(terminal, plan, minutes)
        if not dry_run and not yes:
            terminal.confirm_spending("suite", api.plan_usd(plan.plan))
        return not dry_run

    def show(result: Result) -> None:
        if not quiet:
            terminal.show(Text(f"{time.monotonic() - began:5.0f} s  ").append_text(_line(result)))

    found = api.suite(survey, llm=llm, on_result=show, go_on=go_on, **terms)  # type: ignore[arg-type]
    page = write_page(out) if not dry_run and has_results(out) else None
    if not dry_run:
        terminal.show(*(suite_table(table) for table in found), *(parts_table(table) for table in found if table.parts))
        terminal.show(f"results   {out}", *([Text(f"page      {page}")] if page else []))
    results = [_flat(one) for table in found for one in table.cells.values()]
    terminal.result({"out": str(out), "report": None if page is None else str(page), "results": results})


def _survey(given: Mapping[str, Any]) -> api.Survey:
    """What the options of the command ask for."""
    plain = ("out", "minutes", "workers", "candidates", "recipe_minutes", "share_caches", "commit")
    return api.Survey(
        targets=tuple(given["targets"]),
        contenders=tuple(_words(given["contenders"] or "")),
        precisions=tuple(_precision(word) for word in _words(given["precision"])),
        effort=Effort.SEARCH if given["search"] else Effort.FINAL,
        have=tuple(given["have"] or ()),
        known=tuple(given["known"] or ()),
        part=_part(given["part"]),
        command=_typed(),
        **{name: given[name] for name in plain},
    )


def _show_plan(terminal: Terminal, plan: api.SuitePlan, minutes: float | None) -> None:
    """What is to be done, and how long it should take."""
    title = f"{plan.device.name}, {figures.plural(plan.workers, 'worker')}"
    table = table_of(("contenders", "on"), ("cells", "time", "by then"), title)
    total = 0.0
    for stage in plan.stages:
        total += stage.seconds
        times = figures.duration(stage.seconds), figures.duration(total)
        table.add_row(Text(", ".join(stage.contenders)), Text(stage.place), str(stage.cells), *times)
    terminal.show(table)
    slices = f", {total / 60.0 / minutes:.1f} times {minutes:g} minutes" if minutes else ""
    terminal.show(f"{figures.plural(len(plan.known), 'result')} known; about {figures.duration(total)}{slices}")


def suite_table(found: ResultsTable) -> Table:
    """What each contender came to on a suite."""
    title = f"{found.suite or 'tasks'} on {found.device}, precision {found.precision.value}"
    fast = (f"fast_{p:g}" for p in FAST)
    numbers = ("clamped", "unclamped", *fast, "valid", "failed", "slower", "build")
    table = table_of(("contender",), numbers, title)
    for column in found.columns:
        table.add_row(Text(column.contender.name), *_figures(column, len(found.tasks)))
    return table


def parts_table(found: ResultsTable) -> Table:
    """The geomeans of each contender on either half and on each family."""
    names = [column.contender.name for column in found.columns]
    table = table_of(("tasks",), map(Text, ("", *names)), f"{found.suite} by halves and families")
    for part in found.parts:
        reached = {column.contender.name: column.clamped for column in part.columns}
        table.add_row(part.part, str(len(part.tasks)), *(figures.times(reached.get(name)) for name in names))
    return table


def _figures(column: Column, tasks: int) -> Sequence[str]:
    if column.clamped is None:
        return ("not measured", "", *("" for _ in FAST), f"0/{tasks}", "", "", "")
    return (
        figures.times(column.clamped),
        figures.times(column.raw),
        *(f"{share:.0%}" for share in column.fast),
        f"{column.valid}/{tasks}",
        str(column.tried - column.valid),
        str(column.slower),
        figures.duration(column.build_seconds),
    )


def _line(result: Result) -> Text:
    """One result as it comes; plain text, because a reason may hold what a candidate wrote."""
    head = f"{result.task:<30} {result.precision.value:<4} {result.contender.name:<23} "
    timing = result.evaluation.timing if result.evaluation else None
    if timing is not None:
        bounds = figures.interval(timing.speedup_ci95)
        words = f"{figures.ms(timing.reference_ms)} -> {figures.ms(timing.candidate_ms)}"
        stays = ", the original stays" if result.original else ""
        built = figures.duration(result.build_seconds)
        how = f" {' + '.join(result.recipes)}" if result.recipes else ""
        return Text(f"{head}{words} {figures.times(timing.speedup):>6} ({bounds}), built in {built}{stays}{how}")
    if result.original:
        return Text(f"{head}the original stays")
    if result.evaluation is None:
        return Text(f"{head}not measured: {result.missing}", style="yellow")
    return Text(f"{head}{result.evaluation.status.value}: {result.evaluation.reason}", style="yellow")


def _flat(result: Result) -> dict[str, object]:
    verdict = result.evaluation.flat() if result.evaluation else {}
    of_verdict = ("status", "reason", "speedup", "speedup_ci95", "reference_ms", "candidate_ms")
    return {
        "task": result.task,
        "precision": result.precision.value,
        "contender": result.contender.name,
        **{name: getattr(result, name) for name in ("missing", "original", "build_seconds")},
        **{name: verdict.get(name) for name in of_verdict},
    }


def _typed() -> str:
    """What was typed, without the folder of this machine that results go to."""
    words = ["pike", *sys.argv[1:]]
    if "--out" in words[:-1]:
        words[words.index("--out") + 1] = "FOLDER"
    return shlex.join(words)


def _part(text: str) -> tuple[int, int]:
    which, _, of = text.partition("/")
    if not (which.isdigit() and of.isdigit() and 1 <= int(which) <= int(of)):
        raise UserError(f"The part '{text}' of the tasks must be K/N, for example 2/4")
    return int(which), int(of)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _precision(word: str) -> Precision:
    members = {member.value: member for member in Precision}
    if word not in members:
        raise UserError(f"There is no precision '{word}'{nearest(word, members)}")
    return members[word]
