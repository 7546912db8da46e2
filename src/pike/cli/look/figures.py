"""`pike figures`: the figures of runs, campaigns and suites, as files.

Knows its options and its list. Does not know what can be drawn (`api`).
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from pike.api import outputs
from pike.api.views import FigureEntry
from pike.cli import options as opt
from pike.cli.terminal import Terminal, table_of
from pike.core.codec import encode
from pike.core.errors import UserError
from pike.core.figures import plural

Folders = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN|CAMPAIGN|SUITE...",
        help="Folders that PIKE wrote; one contender on one task in several of them is a repeat.",
    ),
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="The folder for the files.", file_okay=False)]
Format = Annotated[str, typer.Option("--format", metavar="LIST", help="Among png, pdf and svg, with commas.")]
Only = Annotated[list[str] | None, opt.option("KIND", "A kind of figure; may be repeated.", "all", name="--only")]
Listed = Annotated[bool, typer.Option("--list", help="Only say what can be drawn, and what is missing for the rest.")]
Embeddings = Annotated[
    str,
    opt.option(
        "MODEL",
        "A model of sentence-transformers, as a folder or a name: also draw similarities by its embeddings.",
        "none",
    ),
]
Published = Annotated[bool, typer.Option("--published", help="Draw the papers' numbers beside them.")]


def figures(
    folders: Folders,
    out: Out = Path("figures"),
    format_: Format = "png,pdf,svg",
    only: Only = None,
    list_: Listed = False,
    published: Published = False,
    embeddings: Embeddings = "",
    as_json: opt.Json = False,
) -> None:
    """Draw the papers' figures, each with the CSV that it is drawn from."""
    terminal = Terminal(as_json)
    if list_:
        found = outputs.list_figures(folders, only=only or (), published=published, embeddings=embeddings)
    else:
        formats = [one.strip() for one in format_.split(",") if one.strip()]
        found = outputs.figures(
            folders, out, formats=formats, only=only or (), published=published, embeddings=embeddings
        )
    terminal.show(_table(found))
    drawn = [entry for entry in found if entry.files]
    if drawn:
        terminal.show(f"{plural(len(drawn), 'figure')} in {out}")
    terminal.result({"figures": [encode(one) | {"files": [str(file) for file in one.files]} for one in found]})
    if not drawn and not list_:
        raise UserError("Nothing could be drawn: pike figures --list says what is missing")


def _table(found: tuple[FigureEntry, ...]) -> Table:
    lacking = any(entry.missing for entry in found)
    table = table_of(("figure", "shows", "missing") if lacking else ("figure", "shows"))
    for entry in found:
        name = Text(entry.name, style="dim" if entry.missing else "bold")
        table.add_row(name, entry.title, *([entry.missing] if lacking else []))
    return table
