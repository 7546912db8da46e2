"""`pike tasks`: the suites, the tasks of one, and whether a task tests anything.

Knows what is printed. Does not know how a task is read or linted (`api`).
"""

import dataclasses
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from pike.api.judging import lint as lint_one
from pike.api.options import Options, given
from pike.api.task_list import (
    Linted,
    SuiteInfo,
    TaskInfo,
    TensorOutline,
    is_suite,
    known_suites,
    lint_suite,
    look_into,
)
from pike.cli import options as opt
from pike.cli.terminal import Terminal, table_of
from pike.core import figures
from pike.core.codec import encode
from pike.core.errors import UserError
from pike.core.verdict.evaluation import Precision
from pike.core.verdict.lint import LintReport

Suite = Annotated[
    str | None,
    typer.Argument(
        metavar="SUITE|TASK",
        help="A suite: a shipped or registered one, a folder of files, a checkout of KernelBench, or "
        "hf:OWNER/NAME[/SPLIT]; with :small after it, its small variants. Or one task.",
    ),
]
Lint = Annotated[
    bool,
    typer.Option(
        "--lint", help="Try trivial answers; all must fail. A suite's findings are kept, and what is known is skipped."
    ),
]


def tasks(
    suite: Suite = None,
    lint: Lint = False,
    device: opt.Device = None,
    precision: opt.Precision = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
) -> None:
    """List the suites, or the tasks of one with what they take and return.

    With --lint, say whether they test anything.
    """
    terminal = Terminal(as_json)
    terms = given(locals())
    if suite is None:
        if lint:
            raise UserError("Give what is to be linted: pike tasks --lint SUITE, SUITE/ID or a file")
        _list_suites(terminal)
    elif not lint:
        _list_tasks(terminal, suite, precision)
    elif is_suite(suite):
        _lint_suite(terminal, suite, terms)
    else:
        report = lint_one(suite, device=device, precision=precision, settings=settings or ())
        _show_lint(terminal, report)


def _list_suites(terminal: Terminal) -> None:
    found = known_suites()
    terminal.show(suites_table(found))
    terminal.show("pike tasks SUITE lists the tasks of one; a folder of tasks or hf:OWNER/NAME is a suite too.")
    terminal.result({"suites": [dataclasses.asdict(suite) for suite in found]})


def _list_tasks(terminal: Terminal, suite: str, precision: Precision | None) -> None:
    found = list(look_into(suite, precision))
    terminal.show(tasks_table(found))
    for task in found:
        for problem in task.outline.problems:
            terminal.note(f"{task.id}: {problem}", style="yellow")
    terminal.result({"tasks": [_row(task) for task in found]})


def _row(task: TaskInfo) -> dict[str, Any]:
    """One task for programs, flat."""
    row: dict[str, Any] = encode(task)
    outline = row.pop("outline")
    lint = row.pop("lint")
    return {**row, **outline, "lint": lint and {"sound": task.lint is not None and task.lint.sound, **lint}}


def _lint_suite(terminal: Terminal, suite: str, terms: Options) -> None:
    """Print each task's verdict as it is found, and exit with 1 unless all are sound."""
    found = []
    for one in lint_suite(suite, terms):
        found.append(one)
        words = one.verdict.words if one.verdict else one.problem
        terminal.note(f"{one.id}: {words}{' (known)' if one.was_known else ''}")
    sound = [one for one in found if one.verdict is not None and one.verdict.sound]
    if len(sound) < len(found):
        terminal.show(linted_table(found))
    terminal.show(f"{len(sound)} of {figures.plural(len(found), 'task')} sound.", style="bold")
    terminal.result({"sound": len(sound) == len(found), "tasks": found})
    raise typer.Exit(0 if len(sound) == len(found) else 1)


def _show_lint(terminal: Terminal, report: LintReport) -> None:
    tried = f"{figures.plural(len(report.answers), 'trivial answer')} tried"
    if report.untried:
        tried += f", {report.untried} more not for lack of time"
    outcome = "all refused." if report.sound else f"{len(report.passing)} would pass."
    terminal.show(lint_table(report))
    terminal.show(f"{tried}: {outcome}", style="bold")
    terminal.result({"task": report.task, "sound": report.sound, "untried": report.untried, "answers": report.answers})
    raise typer.Exit(0 if report.sound else 1)


def lint_table(report: LintReport) -> Table:
    """The trivial answers that would pass; without any, those that need no model at all."""
    table = table_of(("", "answer", "why"))
    for answer in report.passing or [one for one in report.answers if not one.name.startswith("without")]:
        mark, style = ("refused", "green") if answer.refused else ("PASSES", "bold red")
        table.add_row(Text(mark, style=style), Text(answer.name), Text(answer.reason))
    return table


def suites_table(suites: Iterable[SuiteInfo]) -> Table:
    """Suites by name."""
    table = table_of(("suite",), ("tasks",))
    for suite in suites:
        table.add_row(Text(suite.name, style="bold"), figures.count(suite.tasks))
    return table


def tasks_table(tasks: Iterable[TaskInfo]) -> Table:
    """Tasks with what they take and return."""
    tasks = tuple(tasks)
    families = any(task.family for task in tasks)
    words = ("task", "family") if families else ("task",)
    table = table_of(words, ("parameters",), more_words=("inputs", "outputs", "lint"))
    for task in tasks:
        known, outline = task.lint, task.outline
        style = "dim" if known is None else "green" if known.sound else "bold red"
        family = [Text(f"{task.family}{', held out' if task.held_out else ''}")] if families else []
        table.add_row(
            Text(task.id, style="bold"),
            *family,
            "unknown" if outline.parameters is None else figures.count(outline.parameters),
            _slots(outline.inputs),
            _slots(outline.outputs),
            Text("not linted" if known is None else known.words, style=style),
        )
    return table


def linted_table(found: Iterable[Linted]) -> Table:
    """The tasks of a suite that are not sound, with what would pass."""
    table = table_of(("task", "found", "would pass"))
    for one in found:
        if one.verdict is None:
            table.add_row(Text(one.id), Text("not linted", style="bold red"), Text(one.problem))
        elif not one.verdict.sound:
            table.add_row(Text(one.id), Text(one.verdict.words, style="bold red"), Text("; ".join(one.verdict.passing)))
    return table


def _slots(slots: tuple[TensorOutline, ...] | None) -> Text:
    """One value a line."""
    return Text("unknown" if slots is None else "\n".join(slot.text for slot in slots))
