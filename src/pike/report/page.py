"""The HTML pages: one self-contained file for a run, and one that lists the runs of a folder.

Knows templates, and that candidates' sources and logs are untrusted text: everything is escaped, and the page's own
policy forbids scripts and the network. Does not know how figures are computed (`fold`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pike.core import figures
from pike.core.codec import encode
from pike.core.errors import StoreError, UserError
from pike.core.step import ORIGINAL
from pike.report.chart import Chart, Mark, draw
from pike.report.fold import summarise
from pike.report.lineage import lineage
from pike.report.summary import Point, RunSummary

PAGE = "report.html"
INDEX = "index.html"


def write(folder: Path) -> Path:
    """Write the page of a run, or of a folder of runs, and return its path.

    A run gets `report.html`. A folder whose subfolders are runs gets `index.html`, which links to each run's page
    after writing it anew.

    Raises:
        UserError: `folder` is neither a run nor a folder of runs.
        StoreError: a journal cannot be read, or the page cannot be written.
    """
    try:
        summary = summarise(folder)
    except UserError:
        runs = _runs_in(folder)
        if not runs:
            raise
        for run, summary in runs:
            _save(run / PAGE, render_run(summary))
        return _save(folder / INDEX, render_index([(run.name, summary) for run, summary in runs]))
    return _save(folder / PAGE, render_run(summary))


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


def render_index(runs: list[tuple[str, RunSummary]]) -> str:
    """The page that lists runs; each is the name of its folder beside this page, and its figures."""
    return _environment().get_template("index.html").render(runs=runs, page=PAGE)


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
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error.strerror}; free the disk or its permissions") from error
    return path


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pike.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("ms", "times", "interval", "usd", "error", "duration", "count", "moment", "plural", "disturbance")
    environment.filters.update({name: getattr(figures, name) for name in names})
    environment.filters["line_kind"] = _line_kind
    return environment


def _line_kind(line: str) -> str:
    """The style class of one line of a unified diff."""
    if line.startswith(("+++", "---")):
        return "file"
    return {"+": "added", "-": "removed", "@": "hunk"}.get(line[:1], "same")


@dataclass(frozen=True, slots=True)
class _Axis:
    """A horizontal axis: what of a point it shows, the unit it divides by, and how that is written."""

    title: str
    label: str
    field: str
    spent: float
    unit: float = 1.0
    format: Callable[[float], str] = figures.count


def _charts(summary: RunSummary) -> list[tuple[str, Markup]]:
    """(title, drawing) of the best so far against queries and money, where some were spent, and running time."""
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


def _mark(summary: RunSummary, point: Point, x: float, winner: str) -> Mark:
    entrant = summary.entrant(point.candidate_id)
    author = entrant.candidate.author if entrant else ""
    name = f"{point.candidate_id} {author}: {figures.times(point.speedup)}"
    return Mark(x, point.speedup, name, point.candidate_id == winner)
