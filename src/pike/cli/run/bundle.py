"""`pike bundle` and `pike judge`: candidates go to another machine, and come back as verdicts.

Knows how both are printed. Does not know what travels (`api`).
"""

from pathlib import Path
from typing import Annotated

import typer

from pike.api import external
from pike.api.bare import bundles as bare
from pike.cli import options as opt
from pike.cli.terminal import Terminal
from pike.core import figures
from pike.core.codec import encode

Answers = Annotated[
    Path | None,
    typer.Argument(
        metavar="ANSWERS",
        help="A folder of answers, as for pike tell; they are taken first, and not judged here.",
        show_default="what waits already",
    ),
]
Packed = Annotated[Path | None, opt.option("FILE", "The bundle.", "RUN.bundle here", name="--out")]
Author = Annotated[str | None, typer.Option(metavar="NAME", help="Who wrote the answers.", show_default="by-hand")]
Bundles = Annotated[list[Path], typer.Argument(metavar="BUNDLE", help="What pike bundle wrote.")]
Verdicts = Annotated[
    Path | None, opt.option("FILE", "The verdicts of one bundle.", "BUNDLE.verdicts.jsonl", name="--out")
]
Judges = Annotated[int, opt.option("N", "How many judge at once.", "what the machine bears", min=0)]
MaxMinutes = Annotated[float | None, opt.minutes("When to stop; the same command goes on later.", "no limit")]


def bundle(
    run: opt.Run, answers: Answers = None, out: Packed = None, author: Author = None, as_json: opt.Json = False
) -> None:
    """Pack the candidates that wait for a verdict into one file, for a machine that judges them.

    RUN may also be a campaign. Nothing is judged here until pike resume.
    """
    terminal = Terminal(as_json)
    path = out or Path(f"{run.resolve().name}.bundle")
    packed = external.bundle(run, path, answers=answers, author=author or "")
    for name, count in packed.candidates.items():
        terminal.show(f"{name or run}: {figures.plural(count, 'candidate')}")
    terminal.note(f"Take it to the other machine:  pike judge {path}", style="bold")
    terminal.note(f"Then here:  pike tell {run} {bare.verdict_files(path)[path].name}", style="bold")
    terminal.result({"bundle": str(path), "digest": packed.digest, "candidates": packed.candidates})


def judge(
    bundles: Bundles,
    out: Verdicts = None,
    devices: opt.Devices = None,
    judges: Judges = 0,
    max_minutes: MaxMinutes = None,
    as_json: opt.Json = False,
) -> None:
    """Judge bundles side by side: needs torch and numpy only, and neither the run nor a network."""
    terminal = Terminal(as_json)
    found = bare.judge(
        bundles, out, devices=devices or "", judges=judges, max_minutes=max_minutes, on_line=terminal.show
    )
    terminal.show(bare.summary(found, bare.verdict_files(bundles, out).values()))
    terminal.result(encode(found))
