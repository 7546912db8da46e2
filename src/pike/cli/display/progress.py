"""A run while it goes on: a live panel on a terminal, plain lines elsewhere.

Knows how a snapshot of a run looks. Does not know how a run works; it is handed snapshots.
"""

import time
from collections.abc import Callable, Iterable

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pike.api.views import Activity, Progress
from pike.cli.display.live import LiveView, last_lines
from pike.core import figures
from pike.core.verdict.evaluation import Status

MOST_ACTIVE = 12
"""Rows of things in progress that the panel shows."""

DOING = {
    "asking": "being written",
    "planning": "being planned",
    "fixing": "being fixed",
    "waiting": "waiting for a judge",
    "parse": "judged: parsing",
    "build": "judged: building",
    "load": "judged: loading weights",
    "correct": "judged: checking outputs",
    "time": "judged: timing",
    "recheck": "judged: checking again",
    "profile": "judged: profiling",
}


class Watcher(LiveView[Progress]):
    """Shows the snapshots of one run.

    Args:
        console: where to draw; stderr, so that results can be piped.
        clock: seconds from any origin, for the time shown.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, refresh_per_second=4)
        self._clock = clock
        self._started = clock()

    def line(self, progress: Progress, event: str) -> str:
        """An event, and where the run stands."""
        return f"[{self._elapsed()}] {event}  ({_reached(progress)})"

    def panel(self, progress: Progress) -> RenderableType:
        """Budgets, activities and the newest events."""
        parts: list[RenderableType] = [_budgets(progress, self._clock() - self._started), Text()]
        if progress.active:
            parts += [_active(progress.active), Text()]
        parts += last_lines(progress)
        title = Text.assemble((progress.task, "bold"), f"  {progress.phase}, round {progress.round}  {self._elapsed()}")
        return Panel(Group(*parts), title=title, title_align="left", subtitle=_counts(progress), subtitle_align="left")

    def _elapsed(self) -> str:
        return figures.duration(self._clock() - self._started)


def _reached(progress: Progress) -> str:
    name, done, most = _counted(progress)
    spent = f"{done}/{most} {name}" if most is not None else figures.plural(done, name.removesuffix("s"))
    money = f", {figures.usd(progress.spend.usd)}" if progress.spend.usd else ""
    return f"{spent}{money}, best {figures.times(progress.best_speedup)}"


def _counted(progress: Progress) -> tuple[str, int, int | None]:
    """The unit of the budget, its number so far and its limit; recipes' steps are no queries."""
    if progress.asks_models:
        return "queries", progress.spend.queries, progress.budget.queries
    return "candidates", progress.candidates, progress.most_candidates


def _budgets(progress: Progress, elapsed: float) -> Table:
    table = Table.grid(padding=(0, 2))
    spend, budget = progress.spend, progress.budget
    name, done, most = _counted(progress)
    table.add_row(name, *((str(done),) if most is None else (_bar(done, most), f"{done} of {most}")))
    if budget.usd is not None:
        known = f"{figures.usd(spend.usd)} of {figures.usd(budget.usd)}"
        table.add_row("money", _bar(spend.usd, budget.usd), known + _unpriced(progress))
    elif spend.usd or spend.unpriced:
        table.add_row("money", "", figures.usd(spend.usd) + _unpriced(progress))
    if budget.tokens is not None:
        known = f"{figures.count(spend.tokens)} of {figures.count(budget.tokens)}"
        table.add_row("tokens", _bar(spend.tokens, budget.tokens), known)
    if progress.limit_seconds is not None:
        limit, kept = (figures.duration(one) for one in (progress.limit_seconds, progress.kept_seconds))
        table.add_row("time", _bar(elapsed, progress.limit_seconds), f"of {limit}, {kept} kept for the finalists")
    best = Text(figures.times(progress.best_speedup), style="bold green" if progress.best_speedup else "dim")
    original = f"original {figures.ms(progress.reference_ms)}" if progress.reference_ms is not None else ""
    source = ", ".join(filter(None, (progress.best_id or "none valid yet", original)))
    table.add_row("best", best, Text(source))
    return table


def _bar(spent: float, limit: float) -> ProgressBar:
    return ProgressBar(total=max(limit, 1e-9), completed=min(spent, limit), width=30)


def _unpriced(progress: Progress) -> str:
    return f" + {figures.plural(progress.spend.unpriced, 'call')} of unknown price" if progress.spend.unpriced else ""


def _active(activities: Iterable[Activity]) -> Table:
    rows = list(activities)
    table = Table.grid(padding=(0, 2))
    for activity in rows[:MOST_ACTIVE]:
        fix = f", fix {activity.attempt}" if activity.attempt else ""
        place = "" if activity.role is None else f"round {activity.round}, sample {activity.sample}{fix}"
        table.add_row(Text(activity.name, style="bold"), place, DOING.get(activity.doing, activity.doing))
    if len(rows) > MOST_ACTIVE:
        table.add_row("", "", f"and {len(rows) - MOST_ACTIVE} more")
    return table


def _counts(progress: Progress) -> Text:
    text = Text()
    for status, number in progress.counts:
        text.append(f" {status.value} {number} ", style="green" if status is Status.VALID else "red")
    return text
