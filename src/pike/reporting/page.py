"""The HTML pages: one self-contained file for a run, for the runs of a folder, or for a suite.

Knows that sources and logs are untrusted: all is escaped, and scripts and network are forbidden.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pike.core import figures
from pike.core.codec import encode
from pike.core.errors import StoreError, UserError
from pike.core.step import ORIGINAL
from pike.core.text.printable import printable
from pike.reporting.chart import Chart, ChartMark, draw
from pike.reporting.contributions import contributions, histories_in
from pike.reporting.fold import summarise
from pike.reporting.lineage import lineage
from pike.reporting.results import HELD_OUT, OPEN, tables
from pike.reporting.standings import unclamped_geomean
from pike.reporting.summary import RunSummary, VerdictPoint
from pike.store import read_results

PAGE = "report.html"
INDEX = "index.html"


def write(folder: Path) -> Path:
    """Write the page of a run, or of a folder of runs, and return its path.

    A run gets `report.html`. A folder whose subfolders are runs gets `index.html`, which links to
    each run's page after writing it anew.

    Raises:
        UserError: `folder` is neither a run, a folder of runs nor that of a suite.
        StoreError: a journal cannot be read, or the page cannot be written.
    """
    if has_results(folder):
        return _write_suite(folder)
    try:
        summary = summarise(folder)
    except UserError:
        runs = _runs_in(folder)
        if not runs:
            raise
        for run, summary in runs:
            _save(run / PAGE, render_run(summary))
        listed = [(run.name, summary) for run, summary in runs]
        return _save(folder / INDEX, _environment().get_template("index.html").render(runs=listed, page=PAGE))
    return _save(folder / PAGE, render_run(summary))


def has_results(folder: Path) -> bool:
    """Whether a suite left results in `folder`."""
    return any(folder.glob("results-*.jsonl"))


def _write_suite(folder: Path) -> Path:
    """The leaderboard of a suite, which links to the pages of its searches."""
    histories, boards = histories_in(folder), tables(read_results([folder]))
    runs = folder / "runs"
    pages = {run.name: _save(run / PAGE, render_run(summary)).relative_to(folder) for run, summary in _runs_in(runs)}
    terms = {"boards": boards, "pages": pages, "halves": (HELD_OUT, OPEN)}
    shares = partial(contributions, histories)
    return _save(folder / INDEX, _environment().get_template("suite.html").render(terms, shares=shares))


def render_run(summary: RunSummary) -> str:
    """The page of one run."""
    return (
        _environment()
        .get_template("run.html")
        .render(
            run=summary,
            best=summary.best,
            charts=_charts(summary),
            links=lineage(summary, summary.best.candidate.id) if summary.best else (),
            entrants=summary.entrants,
            config=json.dumps(encode(summary.config), indent=2),
            original=ORIGINAL,
        )
    )


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


def _save(path: Path, text: str) -> Path:
    """Replace `path` in one move, so that a page open in a browser is never half written."""
    try:
        draft = path.with_suffix(".tmp")
        draft.write_text(printable(text), encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error.strerror}; free the disk or its permissions") from error
    return path


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pike.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("ms", "times", "interval", "usd", "error", "duration", "count", "moment", "plural", "disturbance", "rate")
    environment.filters.update({name: getattr(figures, name) for name in names})
    environment.filters["line_kind"] = _line_kind
    environment.filters["geomean"] = unclamped_geomean
    return environment


def _line_kind(line: str) -> str:
    """The style class of one line of a unified diff."""
    if line.startswith(("+++", "---")):
        return "file"
    return {"+": "added", "-": "removed", "@": "hunk"}.get(line[:1], "same")


@dataclass(frozen=True, slots=True)
class _Axis:
    """A horizontal axis: which figure of a point it shows, in which unit, written how."""

    title: str
    label: str
    field: str
    spent: float
    unit: float = 1.0
    format: Callable[[float], str] = figures.count


def _charts(summary: RunSummary) -> list[tuple[str, Markup]]:
    """(title, drawing) of the best so far against time, and what was spent of queries and money."""
    if not summary.points:
        return []
    axes = []
    if summary.spend.queries > 0:
        axes.append(_Axis("By query", "queries with a verdict", "queries", summary.spend.queries))
    if summary.spend.usd > 0:
        axes.append(_Axis("By money", "US dollars spent", "usd", summary.spend.usd, format=lambda value: f"${value:g}"))
    unit, name = next(
        (u, n) for u, n in ((3600, "hours"), (60, "minutes"), (1, "seconds")) if summary.seconds >= 2 * u or u == 1
    )
    axes.append(
        _Axis("By time", f"running time in {name}", "seconds", summary.seconds, unit, lambda value: f"{value:g}")
    )
    # `draw` escapes every text that it is given.
    return [(axis.title, Markup(draw(_chart(summary, axis)))) for axis in axes]


def _chart(summary: RunSummary, axis: _Axis) -> Chart:
    winner = summary.best.candidate.id if summary.best else ""
    marks = tuple(_mark(summary, point, getattr(point, axis.field) / axis.unit, winner) for point in summary.points)
    final = summary.best.final.timing if summary.best and summary.best.final else None
    return Chart(
        label=f"Best speedup so far against {axis.label}; reaches {figures.times(summary.points[-1].best)}",
        x_label=axis.label,
        y_label="speedup",
        x_end=max(axis.spent / axis.unit, max(mark.x for mark in marks)),
        marks=marks,
        start=1.0,
        format_x=axis.format,
        whole=axis.field == "queries",
        level=(final.speedup_ci95[0], final.speedup, final.speedup_ci95[1]) if final else None,
    )


def _mark(summary: RunSummary, point: VerdictPoint, x: float, winner: str) -> ChartMark:
    entrant = summary.entrant(point.candidate_id)
    author = entrant.candidate.author if entrant else ""
    name = f"{point.candidate_id} {author}: {figures.times(point.speedup)}"
    return ChartMark(x, point.speedup, name, point.candidate_id == winner)
