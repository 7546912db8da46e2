"""`pike campaign`: contenders under one budget, live on a terminal or as plain lines.

Knows when to ask before money is spent, and what to print. Does not measure (`api`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pike.api import campaigns as api
from pike.api.views import Axis, CampaignFigures, CampaignProgress, CellFigures, CellState, Cut, Spread, Standing
from pike.cli import options as opt
from pike.cli.display.live import LiveView, last_lines
from pike.cli.display.run import ELSEWHERE, WAITING
from pike.cli.terminal import Terminal, table_of
from pike.core import figures
from pike.core.errors import UserError

MOST_FAILURES = 20
"""Reasons of failed runs that are printed."""
MOST_OPEN = 8
"""Rows of open runs that the panel shows."""

File = Annotated[Path | None, typer.Argument(metavar="CONFIG", help="A TOML file with a table [campaign].")]
Out = Annotated[Path | None, opt.folder("The campaign's folder.", "a new one under runs/")]
Resume = Annotated[Path | None, opt.folder("Carry on the campaign in this folder.")]


def campaign(
    config: File = None,
    out: Out = None,
    resume: Resume = None,
    llm: opt.Llm = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    yes: opt.Yes = False,
) -> None:
    """Compare strategies, recipes and baselines on tasks under one budget."""
    terminal = Terminal(as_json, quiet)
    if config is None and resume is None:
        raise UserError("Give a TOML file with a table [campaign], or --resume and the folder of a campaign")
    if resume is None and not yes:
        file = api.campaign_file(config, llm=llm, settings=settings or ())
        terminal.confirm_spending("campaign", api.campaign_usd(file))
    with CampaignWatcher(terminal.notes) as watcher:
        shared = api.Shared(observer=watcher)
        done = api.campaign(config, out=out, resume=resume, llm=llm, settings=settings or (), shared=shared)
    finish(terminal, done.folder, done.figures)


_WAITS = {WAITING: "waits for answers", ELSEWHERE: "waits for verdicts"}


def finish(terminal: Terminal, folder: Path, found: CampaignFigures) -> None:
    """Print what a campaign came to and end with the exit code that says so.

    0: complete, or all that is left waits from outside. 1: that, but a run failed. 130: it can be
    carried on.
    """
    show(terminal, folder, found)
    terminal.result(found)
    failed = any(cell.state is CellState.FAILED for cell in found.cells)
    ended = all(_waits(cell) or cell.state in (CellState.FINISHED, CellState.FAILED) for cell in found.cells)
    raise typer.Exit(130 if not ended else 1 if failed else 0)


def _waits(cell: CellFigures) -> bool:
    return cell.state is CellState.BEGUN and cell.reason in _WAITS


def show(terminal: Terminal, folder: Path, found: CampaignFigures) -> None:
    """The table of a campaign with what is needed to read it."""
    terminal.show(standings_table(found))
    terminal.show(*(Text(f"{note}.", style="dim") for note in found.notes))
    failed = [cell for cell in found.cells if cell.state is CellState.FAILED]
    terminal.show(*(Text(line, style="yellow") for line in failures(failed)))
    spent = f"{figures.plural(found.spend.queries, 'query')}, {figures.usd(found.spend.usd)}"
    open_for = f"open for {figures.duration(found.seconds)}, from when each had timed its original"
    terminal.show(f"{figures.plural(len(found.cells), 'run')}: {spent}; {open_for}.")
    terminal.show(f"figures   {folder / 'campaign.json'}")
    if waiting := sum(cell.state is CellState.BEGUN and cell.reason == WAITING for cell in found.cells):
        runs = f"{figures.plural(waiting, 'run')} of them wait for answers"
        terminal.show(f"{runs}:  pike ask {folder} --all --out prompts", style="bold")
    if not found.finished:
        terminal.show(f"Not complete. Continue with:  pike campaign --resume {folder}", style="bold")


def standings_table(found: CampaignFigures) -> Table:
    """Every contender of a campaign at every cut."""
    figures_of = ("clamped", "over repeats", "unclamped", "fast_1", "fast_1.5", "fast_2", "failed", "reached")
    table = table_of(("at", "contender"), figures_of)
    last: Cut | None = None
    waiting = [cell for cell in found.cells if _waits(cell) and cell.speedup is None]
    without, words = Counter(cell.contender for cell in waiting), {one.contender: _WAITS[one.reason] for one in waiting}
    for row in found.standings:
        if last is not None and row.cut != last:
            table.add_section()
        table.add_row(
            "" if row.cut == last else cut_text(row.cut),
            Text(row.contender),
            *(_figures(row) if without[row.contender] < row.runs else (words[row.contender], *[figures.NOTHING] * 5)),
            f"{row.failed - without[row.contender]}/{row.runs}",
            f"{row.reached}/{row.runs}",
        )
        last = row.cut
    return table


def _figures(row: Standing) -> Iterable[str]:
    yield figures.times(row.clamped.value)
    yield _range(row.clamped)
    yield figures.times(row.unclamped.value if row.unclamped else None)
    yield from (f"{fast.value:.0%}" for _, fast in row.fast)


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
    table.add_column("contender", overflow="fold")
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
