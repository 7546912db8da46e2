"""The command that judges one candidate: `pike evaluate`.

Knows how a verdict is printed and which exit code it has. Does not know how it is reached (`api`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pike import api
from pike.cli import options as opt
from pike.cli import show
from pike.cli.progress import DOING
from pike.cli.terminal import Terminal
from pike.core.evaluation import Effort, Evaluation, Status

Candidate = Annotated[
    Path, typer.Argument(metavar="CANDIDATE", help="A Python file with a class ModelNew.", show_default=False)
]
Profile = Annotated[bool, typer.Option("--profile", help="Also say where the time of a valid candidate goes.")]
Final = Annotated[bool, typer.Option("--final", help="Measure as thoroughly as at the end of a run.")]


def evaluate(
    task: opt.Task,
    candidate: Candidate,
    device: opt.Device = None,
    tolerance: opt.Tolerance = None,
    precision: opt.Precision = None,
    final: Final = False,
    profile: Profile = False,
    config: opt.Config = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
) -> None:
    """Judge one candidate: is it right, is it fast."""
    terminal = Terminal(as_json)
    given = api.Options(device=device, tolerance=tolerance, precision=precision, config=config, settings=settings or ())
    effort = Effort.FINAL if final else Effort.SEARCH
    with _stages(terminal) as on_stage:
        verdict = api.evaluate(task, candidate, effort=effort, profile=profile, on_stage=on_stage, **given)
    show_verdict(terminal, verdict)
    terminal.result(verdict.flat())
    raise typer.Exit(exit_code(verdict))


def show_verdict(terminal: Terminal, verdict: Evaluation) -> None:
    """A verdict with its diagnostics and its profile, as far as it has them."""
    terminal.show(show.verdict_table(verdict))
    if verdict.profile:
        if verdict.profile.hotspots:
            terminal.show(show.profile_table(verdict.profile))
        terminal.show(show.profile_words(verdict.profile))
    if verdict.log and not verdict.valid:
        terminal.show(Text(f"\n{verdict.log}", style="dim"))


def exit_code(verdict: Evaluation) -> int:
    """0 valid, 1 refused, 3 the judge or its machine failed."""
    if verdict.status is Status.INFRA_ERROR:
        return 3
    return 0 if verdict.valid else 1


@contextmanager
def _stages(terminal: Terminal) -> Iterator[Callable[[str], None]]:
    """Show the stage that an evaluation is in: renewed in place on a terminal, a line each elsewhere."""
    if not terminal.notes.is_terminal:
        yield lambda stage: terminal.note(Text(DOING.get(stage, stage)))
        return
    with terminal.notes.status("starting a judge") as status:
        yield lambda stage: status.update(DOING.get(stage, stage))
