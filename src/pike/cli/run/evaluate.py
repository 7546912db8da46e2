"""`pike evaluate`: one candidate, judged.

Knows how the stages of an evaluation are shown. Does not know how a verdict is reached (`api`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from pike.api import judging
from pike.cli import options as opt
from pike.cli.display.progress import DOING
from pike.cli.display.verdict import exit_code, show_verdict
from pike.cli.terminal import Terminal
from pike.core.verdict.evaluation import Effort

Candidate = Annotated[Path, typer.Argument(metavar="CANDIDATE", help="A Python file with a class ModelNew.")]
Final = Annotated[bool, typer.Option("--final", help="Measure as thoroughly as at the end of a run.")]


def evaluate(
    task: opt.Task,
    candidate: Candidate,
    device: opt.Device = None,
    tolerance: opt.Tolerance = None,
    precision: opt.Precision = None,
    final: Final = False,
    profile: opt.Profile = False,
    config: opt.Config = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Judge one candidate: is it right, is it fast."""
    terminal = Terminal(as_json, quiet)
    effort = Effort.FINAL if final else Effort.SEARCH
    with _stages(terminal) as on_stage:
        verdict = judging.evaluate(
            task,
            candidate,
            effort=effort,
            profile=profile,
            on_stage=on_stage,
            device=device,
            tolerance=tolerance,
            precision=precision,
            config=config,
            settings=settings or (),
        )
    show_verdict(terminal, verdict)
    terminal.result(verdict.flat())
    raise typer.Exit(exit_code(verdict))


@contextmanager
def _stages(terminal: Terminal) -> Iterator[Callable[[str], None]]:
    """Show the stage of an evaluation: in place on a terminal, a line each elsewhere."""
    if not terminal.notes.is_terminal:
        yield lambda stage: terminal.note(DOING.get(stage, stage))
        return
    with terminal.notes.status("starting a judge") as status:
        yield lambda stage: status.update(DOING.get(stage, stage))
