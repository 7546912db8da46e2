"""A run while it goes on: a live panel on a terminal, plain lines elsewhere.

Knows how a snapshot of a run looks. Does not know how a run works; it is handed snapshots.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Self

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
    "judged": "waiting for a judge, or at one",
}
BARS = "▁▂▃▄▅▆▇█"


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
        self._pace_from: tuple[float, float] | None = None

    def timed_by(self, clock: Callable[[], float]) -> Self:
        """Show the seconds of a clock that began with the run, before this did."""
        self._clock, self._started, self._pace_from = clock, 0.0, (0.0, 0.0)
        return self

    def line(self, progress: Progress, event: str) -> str:
        """An event, and where the run stands."""
        return f"[{figures.duration(self._elapsed(progress))}] {event}  ({_reached(progress)})"

    def panel(self, progress: Progress) -> RenderableType:
        """Budgets, activities and the newest events."""
        elapsed = self._elapsed(progress)
        table = _budgets(progress, elapsed)
        table.add_row("to the end", "", self._to_the_end(progress, elapsed))
        parts: list[RenderableType] = [table, Text()]
        if progress.active:
            parts += [Text(_at_work(progress.active), style="dim"), _active(progress.active), Text()]
        parts += [_refusal(*one) for one in progress.refusals]
        parts += last_lines(progress)
        place = f"  {progress.phase}, round {progress.round}  {figures.duration(elapsed)}"
        title = Text.assemble((progress.task, "bold"), place)
        return Panel(Group(*parts), title=title, title_align="left", subtitle=_counts(progress), subtitle_align="left")

    def _to_the_end(self, progress: Progress, elapsed: float) -> str:
        """How long the search should go on at the pace so far, and no longer than its limits."""
        if progress.phase in ("measuring", "done"):
            return "the finalists are measured again" if progress.phase == "measuring" else "over"
        _, done, most = _counted(progress)
        spend, budget = progress.spend, progress.budget
        ended = max(0, done - len(progress.active)) if progress.asks_models else done
        shares = [ended / most] if most else []
        shares += [spend.usd / budget.usd] if budget.usd else []
        shares += [spend.tokens / budget.tokens] if budget.tokens else []
        share = max(shares, default=0.0)
        self._pace_from = before, since = self._pace_from or (share, elapsed)
        left = (1.0 - share) * (elapsed - since) / (share - before) if share > before else None
        if progress.limit_seconds is not None:
            hard = progress.limit_seconds - elapsed
            if hard <= 0.0:
                return "past its limit: what was begun is finished"
            return f"at most {figures.duration(hard if left is None else min(hard, left))}"
        return "not known yet" if left is None else f"about {figures.duration(max(0.0, left))}, then the finalists"

    def _elapsed(self, progress: Progress) -> float:
        return progress.earlier_seconds + self._clock() - self._started


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
    if progress.trajectory:
        first, last = (figures.times(progress.trajectory[at]) for at in (0, -1))
        table.add_row("trajectory", Text(sparkline(progress.trajectory), style="green"), f"{first} to {last}")
    return table


def sparkline(values: Sequence[float]) -> str:
    """A bar for each value, between the lowest of them, 1 included, and the highest."""
    low, high = min([1.0, *values]), max([1.0, *values])
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in values)


def _at_work(activities: Iterable[Activity]) -> str:
    """How many are with an agent, wait for a judge, or have one."""
    doing = [one.worker or one.doing for one in activities]
    asked = sum(one in ("asking", "planning", "fixing") for one in doing)
    waiting, either = doing.count("waiting"), doing.count("judged")
    known = ((asked, "with agents"), (waiting, "waiting for a judge"), (either, "waiting for a judge, or at one"))
    counts = (*known, (len(doing) - asked - waiting - either, "at judges"))
    return ", ".join(f"{count} {what}" for count, what in counts if count)


def _refusal(candidate: str, reason: str) -> Text:
    return Text.assemble((f"{candidate} ", "bold"), (reason, "red"), overflow="ellipsis", no_wrap=True)


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
        doing = DOING.get(activity.doing, activity.doing)
        if activity.worker:
            doing = f"{'judged' if activity.doing == 'judged' else doing} ({activity.worker})"
        table.add_row(Text(activity.name, style="bold"), place, doing)
    if len(rows) > MOST_ACTIVE:
        table.add_row("", "", f"and {len(rows) - MOST_ACTIVE} more")
    return table


def _counts(progress: Progress) -> Text:
    text = Text()
    for status, number in progress.counts:
        text.append(f" {status.value} {number} ", style="green" if status is Status.VALID else "red")
    return text
