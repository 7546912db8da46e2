"""`pike demo`: two real models made faster on this machine, without a key.

Knows which tasks and how small a budget. Does not know how a run works (`api`).
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pike import api
from pike.api.opponents import baselines
from pike.cli import options as opt
from pike.cli import show
from pike.cli.progress import Watcher
from pike.cli.running import exit_code
from pike.cli.terminal import Terminal
from pike.core.evaluation import Evaluation

TASKS = ("demo/resnet18", "demo/gpt_block")
QUERIES = 10
"""For each model: one round of the published search."""
SETTINGS = (
    "engine.max_hours=0.012",
    "engine.concurrency=2",
    "engine.finalists=2",
    "evaluate.max_timing_seconds=6.0",
    "evaluate.timeout_seconds=150.0",
)
"""Bounds on the time of each model, so that both end within minutes on two CPU cores. Few steps are in flight at
once, because what was asked is judged to the end, and only asking stops when the time is up."""

Folder = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder for the runs.", file_okay=False)]
Tasks = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TASK]...", help="Other tasks, e.g. demo/gpt_block:small.", show_default=False),
]
Queries = Annotated[int, typer.Option(min=1, metavar="N", help="The most queries for each model.")]


def demo(
    tasks: Tasks = None,
    out: Folder = Path("runs/demo"),
    query_budget: Queries = QUERIES,
    device: opt.Device = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
) -> None:
    """Make two real models faster with recipes, on the device that is here."""
    terminal = Terminal(as_json)
    rows: list[show.Row] = []
    terms = api.Options(
        llm="none",
        strategy="pike-b",
        query_budget=query_budget,
        device=device,
        settings=(*SETTINGS, *(settings or ())),
    )
    for task in tasks or TASKS:
        api.estimate(task, **terms)  # what cannot be used is refused before an earlier demo is put aside
    for task in tasks or TASKS:
        folder = out / task.rpartition("/")[2].replace(":", "-")
        rows.append(_one(terminal, task, folder, terms))
        if not rows[-1].result.finished or rows[-1].compiled is None:
            break
    page = api.report(out)
    terminal.show(show.runs_table(rows))
    if all(row.result.finished for row in rows):
        terminal.show(Text("Each number was measured again at the end, on fresh data, interleaved with the original."))
    for row in rows:
        if warning := show.disturbed(row.result.evaluation):
            terminal.show(Text(f"{row.result.name}: {warning}", style="yellow"))
    terminal.show(Text(f"Winning files, journals and results are in {out}; the page is {page}"))
    for row in rows:
        if row.result.resume_command:
            terminal.show(Text(f"Stopped: {row.result.stopped}. Continue with:  {row.result.resume_command}"))
    terminal.result({"runs": [row.result.flat() for row in rows], "page": str(page)})
    raise typer.Exit(max(exit_code(row.result) for row in rows))


def _one(terminal: Terminal, task: str, folder: Path, terms: api.Options) -> show.Row:
    """Optimise one model, then measure plain `torch.compile` in the same way as the winner."""
    _put_aside(folder)
    terminal.note(
        Text(f"{task}: up to {terms['query_budget']} candidates from recipes, each judged against the original")
    )
    with Watcher(terminal.notes) as watcher:
        done = api.optimize(task, out=folder, observer=watcher, **terms)
    compiled = None
    if done.result.finished:
        terminal.note(Text(f"{task}: measuring plain torch.compile"))
        try:
            compiled = baselines(task, ["compile"], **terms)[0].evaluation
            _keep(folder, compiled)
        except KeyboardInterrupt:
            terminal.note(Text(f"{task}: stopped before torch.compile was measured"))
    return show.Row(done.result, compiled)


def _keep(folder: Path, compiled: Evaluation) -> None:
    """The verdict on plain `torch.compile`, beside the run it is compared with."""
    (folder / "torch_compile.json").write_text(json.dumps(compiled.flat(), indent=2) + "\n")


def _put_aside(folder: Path) -> None:
    """Keep the run of an earlier demo under another name, so that this one starts anew."""
    if folder.exists():
        earlier = folder.parent / "earlier" / f"{folder.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        earlier.parent.mkdir(exist_ok=True)
        folder.rename(earlier)
