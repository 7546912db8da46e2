"""`pike watch`: a run or a campaign that another process carries out, seen as by its own terminal.

Knows what is shown when it ends. Does not know how it is read (`api`).
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from pike.api import campaigns, runs
from pike.cli import options as opt
from pike.cli.compare import campaign
from pike.cli.display import run as display
from pike.cli.display.progress import Watcher
from pike.cli.terminal import Terminal


def watch(run: opt.Run, as_json: opt.Json = False, quiet: opt.Quiet = False) -> None:
    """Look at a run or a campaign until it ends; one that has ended shows what it came to.

    Ctrl-C ends the looking, not the run.
    """
    terminal = Terminal(as_json, quiet)
    with _interrupts_held_back():
        if campaigns.is_campaign(run):
            with campaign.CampaignWatcher(terminal.notes) as several:
                found = campaigns.watch_campaign(run, several)
            campaign.finish(terminal, run, found)
        with Watcher(terminal.notes) as watcher:
            result = runs.watch(run, watcher.timed_by)
    display.show(terminal, result)
    raise typer.Exit(display.exit_code(result))


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C is seen between two looks only: Python drops one that comes while it calls back from C."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
