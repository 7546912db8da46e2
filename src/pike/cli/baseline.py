"""`pike baseline`: what there is to beat, measured on whole suites.

Knows what is printed while it goes on and at the end. Does not know how anything is measured (`api`).
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from pike import api
from pike.api.opponents import Column, ResultsTable, Survey, survey
from pike.cli import options as opt
from pike.cli.terminal import Terminal
from pike.core import evaluation, figures
from pike.core.config import nearest
from pike.core.errors import UserError
from pike.core.results import Result

E = TypeVar("E", bound=StrEnum)

Targets = Annotated[
    list[str],
    typer.Argument(metavar="SUITE|TASK...", help="Suites, tasks of them (SUITE/ID) or files.", show_default=False),
]
Names = Annotated[
    str | None,
    typer.Option(
        "--baselines",
        metavar="NAME,...",
        help="eager, compile, compile:reduce-overhead, compile:max-autotune, compile:max-autotune-no-cudagraphs, "
        "cuda-graph, tensorrt, or published:FOLDER with one solution for each task.",
        show_default="all that are distinct on the device",
    ),
]
Precisions = Annotated[
    str, typer.Option("--precision", metavar="NAME,...", help="Arithmetic that is allowed: same, tf32, half.")
]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where results are kept.", file_okay=False)]
Search = Annotated[bool, typer.Option("--search", help="Measure as briefly as a search does.")]
Again = Annotated[bool, typer.Option("--again", help="Measure also what the folder holds already.")]


def baseline(
    targets: Targets,
    baselines: Names = None,
    precision: Precisions = "same",
    out: Out = Path("runs/baselines"),
    search: Search = False,
    again: Again = False,
    device: opt.Device = None,
    tolerance: opt.Tolerance = None,
    config: opt.Config = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
) -> None:
    """Measure what there is to beat; what was measured before, and has not changed, is only read."""
    terminal = Terminal(as_json)
    wanted = Survey(
        names=tuple(_words(baselines)) if baselines is not None else None,
        precisions=tuple(_named(evaluation.Precision, "precision", word) for word in _words(precision)),
        effort=evaluation.Effort.SEARCH if search else evaluation.Effort.FINAL,
        again=again,
        command=shlex.join(["pike", *sys.argv[1:]]),
    )
    given = api.Options(device=device, tolerance=tolerance, config=config, settings=settings or ())
    found = survey(targets, wanted, out, on_result=lambda result: terminal.show(_line(result)), **given)
    for table in found:
        terminal.show(summary_table(table))
    terminal.show(Text(f"results   {out}"))
    terminal.result({"out": str(out), "results": [_flat(one) for table in found for one in table.cells.values()]})


def summary_table(found: ResultsTable) -> Table:
    """What each contender came to on a suite."""
    table = Table(
        title=f"{found.suite or 'tasks'} on {found.device}, precision {found.precision.value}", title_justify="left"
    )
    table.add_column("contender", overflow="fold")
    for name in ("clamped", "raw", "valid", "failed", "slower", "build"):
        table.add_column(name, justify="right")
    for column in found.columns:
        table.add_row(Text(column.contender.name), *_figures(column, len(found.tasks)))
    return table


def _figures(column: Column, tasks: int) -> Sequence[str]:
    if column.clamped is None:
        return ("not measured", "", f"0/{tasks}", "", "", "")
    return (
        figures.times(column.clamped),
        figures.times(column.raw),
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
        built = figures.duration(result.build_seconds)
        return Text(f"{head}{words} {figures.times(timing.speedup):>6} ({bounds}), built in {built}")
    if result.evaluation is None:
        return Text(f"{head}not measured: {result.missing}", style="yellow")
    return Text(f"{head}{result.evaluation.status.value}: {result.evaluation.reason}", style="yellow")


def _flat(result: Result) -> dict[str, object]:
    verdict = result.evaluation.flat() if result.evaluation else {}
    return {
        "task": result.task,
        "precision": result.precision.value,
        "contender": result.contender.name,
        "missing": result.missing,
        "build_seconds": result.build_seconds,
    } | {
        name: verdict.get(name)
        for name in ("status", "reason", "speedup", "speedup_ci95", "reference_ms", "candidate_ms")
    }


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _named(kind: type[E], what: str, word: str) -> E:
    members = {member.value: member for member in kind}
    if word not in members:
        raise UserError(f"There is no {what} '{word}'{nearest(word, members)}")
    return members[word]
