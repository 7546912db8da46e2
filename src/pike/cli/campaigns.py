"""`pike campaign`: many runs under one budget.

Knows when to ask before money is spent, and what to print at the end. Does not know how a campaign works (`api`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.prompt import Confirm
from rich.text import Text

from pike.api import campaigns as api
from pike.api.views import CampaignFigures, CellState
from pike.cli import options as opt
from pike.cli import standings
from pike.cli.campaign_live import CampaignWatcher
from pike.cli.terminal import Terminal
from pike.core import figures
from pike.core.campaign import CampaignFile
from pike.core.errors import UserError

File = Annotated[
    Path | None,
    typer.Argument(metavar="CONFIG", help="A TOML file with a table [[campaign]].", show_default=False),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="The campaign's folder.", show_default="a new one under runs/", file_okay=False
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Carry on the campaign in this folder.", show_default=False, file_okay=False),
]


def campaign(
    config: File = None,
    out: Out = None,
    resume: Resume = None,
    llm: opt.Llm = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
    yes: opt.Yes = False,
) -> None:
    """Compare strategies on tasks under one budget."""
    terminal = Terminal(as_json)
    if config is None and resume is None:
        raise UserError("Give a TOML file with a table [campaign], or --resume and the folder of a campaign")
    if resume is None and not yes:
        _ask_before_spending(terminal, api.campaign_file(config, llm=llm, settings=settings or ()))
    with CampaignWatcher(terminal.notes) as watcher:
        shared = api.Shared(observer=watcher)
        done = api.campaign(config, out=out, resume=resume, llm=llm, settings=settings or (), shared=shared)
    finish(terminal, done.folder, done.figures)


def finish(terminal: Terminal, folder: Path, found: CampaignFigures) -> None:
    """Print what a campaign came to and end with the exit code that says so.

    0: complete. 1: complete, but a run failed. 130: it can be carried on.
    """
    show(terminal, folder, found)
    terminal.result(found)
    failed = any(cell.state is CellState.FAILED for cell in found.cells)
    raise typer.Exit(130 if not found.finished else 1 if failed else 0)


def show(terminal: Terminal, folder: Path, found: CampaignFigures) -> None:
    """The table of a campaign with what is needed to read it."""
    terminal.show(standings.standings_table(found))
    terminal.show(*(Text(f"{note}.", style="dim") for note in found.notes))
    failed = [cell for cell in found.cells if cell.state is CellState.FAILED]
    terminal.show(*(Text(line, style="yellow") for line in standings.failures(failed)))
    spent = f"{figures.plural(found.spend.queries, 'query')}, {figures.usd(found.spend.usd)}"
    terminal.show(Text(f"{figures.plural(len(found.cells), 'run')}: {spent}, {figures.duration(found.seconds)}."))
    terminal.show(Text(f"figures   {folder / 'campaign.json'}"))
    if not found.finished:
        terminal.show(Text(f"Not complete. Continue with:  pike campaign --resume {folder}", style="bold"))


def _ask_before_spending(terminal: Terminal, file: CampaignFile) -> None:
    """Say what the campaign may cost and ask, unless it costs nothing.

    Raises:
        UserError: it costs money and there is nobody to ask.
        typer.Exit: the answer is no.
    """
    usd = api.campaign_usd(file)
    if usd == 0:
        return
    cost = "an unknown amount" if usd is None else f"about {figures.usd(usd)}"
    if not terminal.can_ask:
        raise UserError(f"This campaign would spend {cost} and there is no terminal to ask on: add --yes to agree")
    if not Confirm.ask(f"Start this campaign, which spends {cost}?", console=terminal.notes, default=False):
        raise typer.Exit(130)
