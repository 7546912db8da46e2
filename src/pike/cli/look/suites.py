"""`pike suites`: the tasks of others, registered under a name of one's own.

Knows what is printed. Does not know where registrations are kept (`tasks`).
"""

from collections.abc import Iterable
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from pike.api.task_list import RegisteredSuite, add_suite, registered, remove_suite
from pike.cli import options as opt
from pike.cli.terminal import PlainHelp, Terminal, table_of
from pike.core import figures

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="What all of it is called. Levels become NAME:LEVEL, and LEVEL:published for the name published.",
    ),
]
Place = Annotated[
    str,
    typer.Argument(
        metavar="PLACE", help="A checkout of KernelBench or a fork of it, a folder of files, or hf:OWNER/NAME[/SPLIT]."
    ),
]

app = typer.Typer(name="suites", help="List, add and remove suites that others published.", invoke_without_command=True)


@app.callback()
def suites(context: typer.Context, as_json: opt.Json = False) -> None:
    """List, add and remove suites that others published; every command takes their names.

    Without a verb, list what is registered, and whether its files are still the same.
    """
    if context.invoked_subcommand is None:
        terminal, found = Terminal(as_json), tuple(registered().values())
        terminal.show(registered_table(found))
        terminal.show("pike suites add NAME PLACE registers a checkout, a folder or a data set.")
        terminal.result({"suites": found, "changed": {suite.name: suite.changed for suite in found}})


@app.command(cls=PlainHelp)
def add(name: Name, place: Place, as_json: opt.Json = False) -> None:
    """Register the tasks at a place, with the commit and a digest of each file."""
    terminal, found = Terminal(as_json), add_suite(name, place)
    terminal.show(registered_table(found))
    terminal.result({"suites": found})


@app.command(cls=PlainHelp)
def remove(name: Name, as_json: opt.Json = False) -> None:
    """Forget what was registered under a name; the files stay."""
    terminal, found = Terminal(as_json), remove_suite(name)
    terminal.show(f"Forgot {', '.join(suite.name for suite in found)}.")
    terminal.result({"removed": [suite.name for suite in found]})


def registered_table(suites: Iterable[RegisteredSuite]) -> Table:
    """Registered suites, with what has changed since."""
    table = table_of(("suite",), ("tasks",), more_words=("commit", "place", "files"))
    for suite in suites:
        changed = len(suite.changed)
        files = Text(f"{changed} changed", style="bold red") if changed else Text("unchanged", style="green")
        cells = figures.count(len(suite.tasks)), suite.commit or "none", Text(suite.place), files
        table.add_row(Text(suite.name, style="bold"), *cells)
    return table
