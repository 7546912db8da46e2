"""`pike demo`: two real models made faster on this machine, without a key.

Knows which tasks and how small a budget. Does not know how a run works (`api`).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pike import api
from pike.api.views import summarise
from pike.cli import options as opt
from pike.cli import show
from pike.cli.progress import Watcher
from pike.cli.running import exit_code
from pike.cli.terminal import Terminal

TASKS = ("demo/resnet18", "demo/gpt_block")
QUERIES = 10
"""For each model: one round of the published search."""
SETTINGS = ("engine.max_hours=0.04", "engine.finalists=2", "evaluate.max_timing_seconds=6.0")
"""Bounds on the time of each model, so that both end within minutes on two CPU cores."""

Folder = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder for the runs.", file_okay=False)]
Queries = Annotated[int, typer.Option(min=1, metavar="N", help="The most queries for each model.")]


def demo(
    out: Folder = Path("runs/demo"),
    query_budget: Queries = QUERIES,
    device: opt.Device = None,
    as_json: opt.Json = False,
) -> None:
    """Make two real models faster with recipes, on the device that is here."""
    terminal = Terminal(as_json)
    given = api.Options(llm="none", strategy="pike-b", query_budget=query_budget, device=device, settings=SETTINGS)
    rows: list[show.Row] = []
    for task in TASKS:
        folder = out / task.rpartition("/")[2]
        _put_aside(folder)
        terminal.note(Text(f"{task}: up to {query_budget} candidates from recipes, each judged against the original"))
        with Watcher(terminal.notes) as watcher:
            done = api.optimize(task, out=folder, observer=watcher, **given)
        rows.append(show.row_of(done.result, summarise(done.folder)))
        if not done.result.finished:
            break
    page = api.report(out)
    terminal.show(show.runs_table(rows))
    terminal.show(Text("eager, best and speedup: measured again at the end, interleaved, by the judge's clock"))
    terminal.show(Text(f"Winning files, journals and results are in {out}; the page is {page}"))
    for row in rows:
        if row.result.resume_command:
            terminal.show(Text(f"Stopped: {row.result.stopped}. Continue with:  {row.result.resume_command}"))
    terminal.result({"runs": [row.result.flat() for row in rows], "page": str(page)})
    raise typer.Exit(max(exit_code(row.result) for row in rows))


def _put_aside(folder: Path) -> None:
    """Keep the run of an earlier demo under another name, so that this one starts anew."""
    if folder.exists():
        earlier = folder.parent / "earlier" / f"{folder.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        earlier.parent.mkdir(exist_ok=True)
        folder.rename(earlier)
