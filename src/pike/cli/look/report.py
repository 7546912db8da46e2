"""`pike report`: the page of a run, a suite or a folder.

Knows which page belongs to which folder. Does not know what a page holds (`api`).
"""

from pathlib import Path
from typing import Any

from pike.api.campaigns import is_campaign, write_figures
from pike.api.outputs import report as write_page
from pike.api.views import RunSummary, require_texts, summarise
from pike.cli import options as opt
from pike.cli.compare import campaign
from pike.cli.terminal import Terminal
from pike.core import figures


def report(run: opt.Run, as_json: opt.Json = False) -> None:
    """Write the page of a run, finished or not; of a campaign, suite or folder, of all its runs."""
    terminal = Terminal(as_json)
    if is_campaign(run):
        _report_campaign(terminal, run)
        return
    page = write_page(run)
    summary = summarise(run) if page.parent == run and page.name == "report.html" else None
    if summary is not None:
        terminal.show(_sentence(summary))
    terminal.show(str(page))
    terminal.result({"report": str(page), "summary": None if summary is None else _flat(summary)})
    if summary is not None:
        require_texts(run)  # the page may be of what was kept beside a journal whose texts are gone


def _report_campaign(terminal: Terminal, folder: Path) -> None:
    """The table, `campaign.json` anew, and the pages of the campaign and its runs."""
    found = write_figures(folder)
    campaign.show(terminal, folder, found)
    page = write_page(folder)
    terminal.show(f"page      {page}")
    terminal.result({"report": str(page), "campaign": found})


def _sentence(summary: RunSummary) -> str:
    best = summary.best
    reached = f"best {figures.times(best.speedup)} by {best.candidate.id}" if best else "no valid candidate"
    if best and not best.faster:
        reached = (
            f"the original stays (the fastest valid candidate, {best.candidate.id}, {figures.times(best.speedup)})"
        )
    spent = figures.plural(sum(number for _, number in summary.statuses), "candidate")
    if summary.config.llm.asks_models:
        spent = f"{summary.spend.queries} of {figures.plural(summary.config.budget.queries, 'query')}"
    text = f"{summary.task.name}: {summary.state.value}, {reached}, {spent}, {figures.duration(summary.seconds)}"
    return f"{text}. PIKE did not judge it: {summary.imported.tool} did." if summary.imported else text


def _flat(summary: RunSummary) -> dict[str, Any]:
    best = summary.best
    return {
        "task": summary.task.id,
        "state": summary.state,
        "imported": summary.imported,
        "stopped": summary.stop_reason,
        "best": best.candidate.id if best else None,
        "improved": best is not None and best.faster,
        "speedup": None if best is None else best.speedup if best.faster else 1.0,
        "spend": summary.spend,
        "seconds": summary.seconds,
        "rounds": summary.rounds,
        "statuses": {status.value: number for status, number in summary.statuses},
        "fix_attempts": {str(attempts): number for attempts, number in summary.fix_attempts},
        "never_valid": summary.never_valid,
        "trajectory": summary.points,
    }
