"""Writes the HTML pages: one self-contained file for a run, a campaign, a folder of runs, a suite.

Knows which page belongs to which folder. Does not know what a page shows (`view`) or how it looks
(`assets`).
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pike.core import figures
from pike.core.errors import UserError
from pike.core.step import ORIGINAL
from pike.core.text.printable import printable
from pike.reporting.campaign import summarise_campaign
from pike.reporting.contributions import contributions, histories_in
from pike.reporting.fold import summarise
from pike.reporting.results import HELD_OUT, OPEN, tables
from pike.reporting.standings import unclamped_geomean
from pike.reporting.summary import RunSummary
from pike.reporting.view.campaign_view import campaign_view
from pike.reporting.view.details import details, original_details, texts_of
from pike.reporting.view.index_view import index_row, index_view
from pike.reporting.view.run_view import run_view
from pike.reporting.view.shell import environment, page, style
from pike.store import read_results
from pike.store.campaigns import RUNS, is_campaign
from pike.store.whole import replacing

PAGE = "report.html"
INDEX = "index.html"


def write(folder: Path) -> Path:
    """Write the page of a run, a campaign or a folder of runs, and return its path.

    A run and a campaign get `report.html`. A folder whose subfolders are runs gets `index.html`,
    which links to each run's page after writing it anew.

    Raises:
        UserError: `folder` is neither a run, a campaign, a folder of runs nor that of a suite.
        StoreError: a journal cannot be read, or the page cannot be written.
    """
    if is_campaign(folder):
        return _write_campaign(folder)
    if has_results(folder):
        return _write_suite(folder)
    try:
        summary = summarise(folder)
    except UserError:
        runs = _runs_in(folder)
        if not runs:
            raise
        rows = [index_row(run.name, f"{quote(run.name)}/{PAGE}", summary) for run, summary in runs]
        for run, summary in runs:
            write_run(run, summary)
        return _save(folder / INDEX, page(index_view(folder.resolve().name, rows)))
    return write_run(folder, summary)


def has_results(folder: Path) -> bool:
    """Whether a suite left results in `folder`."""
    return any(folder.glob("results-*.jsonl"))


def write_run(folder: Path, summary: RunSummary) -> Path:
    """Write the page of the run in `folder`."""
    view = run_view(summary)
    said = view["result"]
    return _save(folder / PAGE, page(view, _details(folder, summary), f"{said['figure']}: {said['lead']}"))


def _details(folder: Path, summary: RunSummary) -> Iterator[tuple[str, dict[str, Any]]]:
    texts = texts_of(folder)
    yield ORIGINAL, original_details(summary)
    for entrant in summary.entrants:
        yield entrant.candidate.id, details(entrant, texts.get(entrant.step.id) if entrant.step else None)
    for step in summary.barren:
        yield f"step {step.id}", details(None, texts.get(step.id))


def _write_campaign(folder: Path) -> Path:
    found = summarise_campaign(folder)
    pages = {run.name: write_run(run, summary).relative_to(folder) for run, summary in _runs_in(folder / RUNS)}
    links = {name: quote(place.as_posix()) for name, place in pages.items()}
    return _save(folder / PAGE, page(campaign_view(folder.resolve().name, found, links)))


def _write_suite(folder: Path) -> Path:
    """The leaderboard of a suite, which links to the pages of its searches."""
    histories, boards = histories_in(folder), tables(read_results([folder]))
    pages = {run.name: write_run(run, found).relative_to(folder) for run, found in _runs_in(folder / RUNS)}
    terms = {"boards": boards, "pages": pages, "halves": (HELD_OUT, OPEN), "style": style()}
    templates = environment().overlay()
    templates.filters = {**templates.filters, "geomean": unclamped_geomean}
    templates.filters |= {name: getattr(figures, name) for name in ("ms", "times", "duration")}
    shares = partial(contributions, histories)
    return _save(folder / INDEX, [templates.get_template("suite.html").render(terms, shares=shares)])


def _runs_in(folder: Path) -> list[tuple[Path, RunSummary]]:
    if not folder.is_dir():
        return []
    runs = []
    for child in sorted(path for path in folder.iterdir() if path.is_dir()):
        try:
            runs.append((child, summarise(child)))
        except UserError:
            continue
    return runs


def _save(path: Path, texts: Iterable[str]) -> Path:
    """Replace `path` in one move, so that a page open in a browser is never half written."""
    with replacing(path) as file:
        file.writelines(printable(text).encode() for text in texts)
    return path
