"""The command that hands a run to other tools: `pike export`.

Knows which forms there are. Does not know how a run is written in one (`api`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pike import api
from pike.cli import options as opt
from pike.cli.terminal import Terminal
from pike.core import figures
from pike.core.errors import UserError

OpenEvolve = Annotated[
    bool, typer.Option("--openevolve", help="As a checkpoint that OpenEvolve's loader and visualiser open.")
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where to write it.", show_default="inside the run's folder", file_okay=False),
]


def export(run: opt.Run, openevolve: OpenEvolve = False, out: Out = None, as_json: opt.Json = False) -> None:
    """Write a run, finished or not, in the form of another tool."""
    if not openevolve:
        raise UserError("Say in which form to export the run: add --openevolve")
    terminal = Terminal(as_json)
    done = api.export(run, out)
    islands = figures.plural(len(done.islands), "island")
    terminal.show(Text(f"{figures.plural(done.programs, 'program')} on {islands}, best {done.best}."))
    terminal.show(Text(str(done.path)))
    terminal.result(
        {"checkpoint": str(done.path), "programs": done.programs, "islands": done.islands, "best": done.best}
    )
