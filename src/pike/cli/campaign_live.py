"""A campaign while it goes on: a live table on a terminal, plain lines anywhere else.

Knows how a snapshot of a campaign looks. Does not know how a campaign works; it is handed snapshots.
"""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pike.api.views import CampaignProgress
from pike.cli.live import LiveView, last_lines
from pike.core import figures

MOST_OPEN = 8
"""Rows of open runs that the panel shows."""


class CampaignWatcher(LiveView[CampaignProgress]):
    """Shows the snapshots of one campaign.

    Args:
        console: where to draw; stderr, so that results can be piped.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console, refresh_per_second=2)

    def line(self, progress: CampaignProgress, event: str) -> str:
        """One thing that happened, and what is spent."""
        return f"[{figures.duration(progress.seconds)}] {event}  ({_spent(progress)})"

    def panel(self, progress: CampaignProgress) -> RenderableType:
        """The strategies, the open runs, the newest events."""
        title = f"campaign  {_spent(progress)}  {figures.duration(progress.seconds)}"
        parts: list[RenderableType] = [_rows(progress), _open(progress), *last_lines(progress)]
        return Panel(Group(*parts), title=title, title_align="left")


def _spent(progress: CampaignProgress) -> str:
    runs = sum(row.runs for row in progress.rows)
    done = sum(row.finished for row in progress.rows)
    failed = sum(row.failed for row in progress.rows)
    limit = f" of {figures.usd(progress.most_usd)}" if progress.most_usd is not None else ""
    money = f", {figures.usd(progress.usd)}{limit}" if progress.usd or limit else ""
    trouble = f", {failed} failed" if failed else ""
    queries = f"{figures.count(progress.queries)}/{figures.count(progress.most_queries)} queries"
    return f"{done}/{runs} runs{trouble}, {queries}{money}"


def _rows(progress: CampaignProgress) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("strategy", overflow="fold")
    for name in ("finished", "failed", "queries", "money", "geomean so far"):
        table.add_column(name, justify="right")
    for row in progress.rows:
        table.add_row(
            Text(row.name, style="bold"),
            f"{row.finished}/{row.runs}",
            str(row.failed) if row.failed else "",
            figures.count(row.queries),
            figures.usd(row.usd) if row.usd else "",
            figures.times(row.geomean),
        )
    return table


def _open(progress: CampaignProgress) -> Table:
    table = Table.grid(padding=(0, 2))
    for run in progress.open[:MOST_OPEN]:
        table.add_row(Text(run.label), figures.plural(run.queries, "query"), f"best {figures.times(run.best)}")
    if len(progress.open) > MOST_OPEN:
        table.add_row(f"and {len(progress.open) - MOST_OPEN} more", "", "")
    return table
