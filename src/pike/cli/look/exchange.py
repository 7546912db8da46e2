"""`pike export` and `pike import`: runs for other tools, and other tools' runs as journals.

Knows what is printed. Does not know any form (`api`).
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pike.api import outputs
from pike.cli import options as opt
from pike.cli.terminal import Terminal
from pike.core import figures

To = Annotated[
    str, opt.option("FORM", "jsonl, hf-dataset, openevolve, kernelbench, mlflow, wandb, trackio or tensorboard.")
]
Out = Annotated[Path | None, opt.option("DIR", "Where to write it.", "inside the run's folder", file_okay=False)]
Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE", help="A PIKE data folder, a checkpoint of OpenEvolve, or a database of ShinkaEvolve."
    ),
]
Runs = Annotated[Path, typer.Option("--out", metavar="RUNS", help="The folder for the runs.", file_okay=False)]


def export(run: opt.Run, to: To, out: Out = None, as_json: opt.Json = False) -> None:
    """Write a run, finished or not, in the form of another tool."""
    terminal = Terminal(as_json)
    done = outputs.export(run, to, out)
    terminal.show(done.sentence)
    terminal.show(done.path)
    terminal.result({"to": done.to, "path": done.path, **done.counts})


def import_(source: Source, out: Runs = Path("runs"), as_json: opt.Json = False) -> None:
    """Write runs of another tool as journals, marked imported: PIKE did not judge them."""
    terminal = Terminal(as_json)
    folders = outputs.import_runs(source, out)
    terminal.show(f"Imported {figures.plural(len(folders), 'run')}; pike report shows each:")
    terminal.show(*(Text(str(folder)) for folder in folders))
    terminal.result({"runs": [str(folder) for folder in folders]})
