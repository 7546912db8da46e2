"""The material of figures, from the folders of runs, campaigns and suites.

Knows which folder holds what, and that one contender on one task from two folders is a repeat. Does
not know journals (`searched`) or figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pike.core.comparison.results import Result
from pike.core.errors import UserError
from pike.reporting.campaign import CellState, summarise_campaign
from pike.reporting.figures.data.records import DrawnCell, Material
from pike.reporting.figures.data.searched import WantedFacts, searched
from pike.reporting.results import place_of
from pike.store import campaigns, read_results
from pike.store.schema import FILE_NAME


def material(paths: Sequence[Path], wanted: WantedFacts) -> Material:
    """Everything in these folders; cells without a result are left out.

    Raises:
        UserError: a folder holds nothing to draw from.
        StoreError: a journal cannot be read.
    """
    suites = {path: _results(path) for path in paths if _is_suite(path)}
    naming = _Naming([result for results in suites.values() for result in results])
    cells: list[DrawnCell] = []
    for path in paths:
        new = _of_suite(path, suites[path], naming, wanted) if path in suites else _cells(path, wanted)
        cells += _as_repeats(list(new), cells)
    if not cells:
        named = ", ".join(f"'{path}'" for path in paths)
        raise UserError(f"Nothing in {named} has a result yet: wait for the first verdict, or name another folder")
    return Material(tuple(cells))


def _as_repeats(new: list[DrawnCell], known: Sequence[DrawnCell]) -> Iterator[DrawnCell]:
    """Cells of a further folder, numbered behind those of the same task and contender."""
    count = Counter((cell.task, cell.contender) for cell in known)
    return (replace(cell, repeat=cell.repeat + count[cell.task, cell.contender]) for cell in new)


def _is_suite(path: Path) -> bool:
    return path.is_file() or (not campaigns.is_campaign(path) and any(path.glob("results-*.jsonl*")))


def _results(path: Path) -> list[Result]:
    found = [result for result in read_results([path]) if not result.missing]
    return sorted(found, key=lambda result: place_of(result.task))


def _cells(path: Path, wanted: WantedFacts) -> Iterator[DrawnCell]:
    if campaigns.is_campaign(path):
        return _of_campaign(path, wanted)
    if (path / FILE_NAME).is_file():
        return iter([searched(path, wanted)])
    runs = sorted(child for child in path.iterdir() if (child / FILE_NAME).is_file()) if path.is_dir() else []
    if not runs:
        raise UserError(f"There is no run, campaign or suite in '{path}': give the folder that PIKE wrote one to")
    return _numbered(searched(run, wanted) for run in runs)


def _numbered(cells: Iterator[DrawnCell]) -> Iterator[DrawnCell]:
    count: Counter[tuple[str, str]] = Counter()
    for cell in cells:
        yield replace(cell, repeat=count[cell.task, cell.contender])
        count[cell.task, cell.contender] += 1


def _of_campaign(folder: Path, wanted: WantedFacts) -> Iterator[DrawnCell]:
    """The cells that began; one that failed counts as a task without a candidate."""
    searches = {cell.folder: cell.contender.searches for cell in campaigns.read_plan(folder).cells()}
    for cell in summarise_campaign(folder).cells:
        drawn = DrawnCell(cell.task, cell.contender, cell.repeat, cell.speedup)
        if searches[cell.folder] and cell.run is not None:
            yield replace(drawn, search=searched(campaigns.run_folder(folder, cell.folder), wanted).search)
        elif cell.state is not CellState.WAITING:
            yield drawn


class _Naming:
    """What contenders of suites are called: with precision and device where there are several."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._precisions = len({result.precision for result in results}) > 1
        self._devices = len({result.provenance.device.name for result in results}) > 1

    def name(self, result: Result) -> str:
        extra = [result.precision.value] * self._precisions + [result.provenance.device.name] * self._devices
        return f"{result.contender.name} ({', '.join(extra)})" if extra else result.contender.name


def _of_suite(path: Path, results: Sequence[Result], naming: _Naming, wanted: WantedFacts) -> Iterator[DrawnCell]:
    for result in results:
        drawn = DrawnCell(result.task, naming.name(result), 0, result.speedup)
        run = campaigns.run_folder(path, result.folder) if result.folder else None
        if run is not None and (run / FILE_NAME).is_file():
            drawn = replace(drawn, search=searched(run, wanted).search)
        yield drawn
