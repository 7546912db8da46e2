"""`pike demo`: two real models made faster on this machine, without a key.

Knows which tasks and how small a budget. Does not know how a run works (`api`).
"""

import time
from pathlib import Path
from typing import Annotated

import typer

from pike.api import outputs, runs
from pike.api.options import Options
from pike.cli import options as opt
from pike.cli.display import run as display
from pike.cli.display.progress import Watcher
from pike.cli.terminal import Terminal
from pike.core import figures

TASKS = ("demo/resnet18", "demo/gpt_block")
QUERIES = 10
"""Candidates for each model: one round of the published search."""
SETTINGS = (
    "engine.max_hours=0.025",
    "engine.concurrency=1",
    "engine.finalists=1",
    "evaluate.max_timing_seconds=6.0",
    "evaluate.timeout_seconds=150.0",
)
"""Bounds on the time of each model, so that both end within minutes on two CPU cores. A third of it
is kept for the finalist. When the rest is up only asking stops and steps in flight are judged, so
one is in flight."""

Folder = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder for the runs.", file_okay=False)]
Tasks = Annotated[list[str] | None, typer.Argument(metavar="TASK", help="Other tasks, e.g. demo/gpt_block:small.")]
Queries = Annotated[int, typer.Option(min=1, metavar="N", help="The most candidates for each model.")]


def demo(
    tasks: Tasks = None,
    out: Folder = Path("runs/demo"),
    query_budget: Queries = QUERIES,
    device: opt.Device = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Make two real models faster with recipes, on the device that is here."""
    terminal = Terminal(as_json, quiet)
    rows: list[display.RunRow] = []
    terms = Options(
        llm="none", strategy="pike-b", query_budget=query_budget, device=device, settings=(*SETTINGS, *(settings or ()))
    )
    for task in tasks or TASKS:
        runs.estimate(task, **terms)  # what cannot be used is refused before an earlier demo is put aside
    for task in tasks or TASKS:
        folder = out / task.rpartition("/")[2].replace(":", "-")
        rows.append(_one(terminal, task, folder, terms))
        if not rows[-1].result.finished:
            break
    page = outputs.report(out)
    terminal.show(display.runs_table(rows))
    if all(row.result.finished for row in rows):
        terminal.show("Each number was measured again at the end, on fresh data, interleaved with the original.")
    for row in rows:
        if warning := figures.disturbance(row.result.evaluation):
            terminal.show(f"{row.result.name}: {warning}", style="yellow")
    terminal.show(f"Winning files, journals and results are in {out}; the page is {page}")
    for row in rows:
        if row.result.resume_command:
            terminal.show(f"Stopped: {row.result.stopped}. Continue with:  {row.result.resume_command}")
    terminal.result({"runs": [row.result.flat() for row in rows], "page": str(page)})
    raise typer.Exit(max(display.exit_code(row.result) for row in rows))


def _one(terminal: Terminal, task: str, folder: Path, terms: Options) -> display.RunRow:
    """Optimise one model; plain `torch.compile` is measured beside the finalists."""
    _put_aside(folder)
    terminal.note(f"{task}: up to {terms['query_budget']} candidates from recipes, each judged against the original")
    with Watcher(terminal.notes) as watcher:
        done = runs.optimize(task, out=folder, observer=watcher, **terms)
    return display.RunRow(done.result, dict(done.result.baselines).get(display.COMPILE))


def _put_aside(folder: Path) -> None:
    """Keep the run of an earlier demo under another name, so that this one starts anew."""
    if folder.exists():
        earlier = folder.parent / "earlier" / f"{folder.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        earlier.parent.mkdir(exist_ok=True)
        folder.rename(earlier)
