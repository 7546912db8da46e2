"""The table of a campaign, for people.

Knows how standings look on a terminal. Does not know how they are computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from pike.api.views import Axis, CampaignFigures, CellFigures, Cut, Spread
from pike.core import figures

MOST_FAILURES = 20


def standings_table(found: CampaignFigures) -> Table:
    """Every strategy at every cut."""
    table = Table()
    table.add_column("at")
    table.add_column("strategy", overflow="fold")
    for name in ("clamped", "over repeats", "unclamped", "fast_1", "fast_1.5", "fast_2", "failed", "reached"):
        table.add_column(name, justify="right")
    last: Cut | None = None
    for row in found.standings:
        if last is not None and row.cut != last:
            table.add_section()
        table.add_row(
            "" if row.cut == last else cut_text(row.cut),
            Text(row.contender),
            figures.times(row.clamped.value),
            _range(row.clamped),
            figures.times(row.unclamped.value if row.unclamped else None),
            *(f"{fast.value:.0%}" for _, fast in row.fast),
            f"{row.failed}/{row.runs}",
            f"{row.reached}/{row.runs}",
        )
        last = row.cut
    return table


def cut_text(cut: Cut) -> str:
    """Where a cut lies: `50 queries`, `$5.00`, `end`."""
    if cut.axis is None:
        return "end"
    return figures.usd(cut.at) if cut.axis is Axis.USD else figures.plural(int(cut.at), "query")


def failures(cells: Sequence[CellFigures]) -> Iterable[str]:
    """Why runs failed: each reason once, with the runs that it ended."""
    reasons = Counter((cell.task, cell.reason) for cell in cells)
    for (task, reason), count in list(reasons.items())[:MOST_FAILURES]:
        yield f"failed: {task} ({figures.plural(count, 'run')}): {reason}"
    if len(reasons) > MOST_FAILURES:
        yield f"and {len(reasons) - MOST_FAILURES} more, see campaign.json"


def _range(spread: Spread) -> str:
    """The lowest and the highest repeat, where there are several."""
    return f"{spread.low:.2f} to {spread.high:.2f}" if len(spread.by_repeat) > 1 else figures.NOTHING
