"""What can be drawn from folders, and the files that were written.

Knows the registry. Does not know formats (`writing`) or where values come from (`reading`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pike.core.errors import UserError
from pike.core.settings.merging import nearest
from pike.reporting.figures.data.embeddings import Embeddings
from pike.reporting.figures.data.published import published
from pike.reporting.figures.data.reading import material
from pike.reporting.figures.data.searched import WantedFacts
from pike.reporting.figures.drawing import Drawing, FigureKind, Lack
from pike.reporting.figures.entry import FigureEntry
from pike.reporting.figures.registry import KINDS
from pike.reporting.figures.writing import check_formats, write_drawing

IslandsOf = Callable[[Path], Mapping[str, int]]
"""The island of each candidate of a run; the engine knows it, because it can repeat a search."""
_NO_ISLANDS: IslandsOf = lambda _: {}  # noqa: E731
_NO_SEARCH = "there is no journal of a search: name a run, or a campaign or suite with its runs"


@dataclass(frozen=True, slots=True)
class DrawingTerms:
    """What is drawn, and what is read for it beside journals and results.

    Attributes:
        only: kinds of figures, all where it is empty.
        published: also the numbers that others published.
        embeddings: the model that embeds sources, empty for none.
        islands: tells the islands of a run.
    """

    only: Sequence[str] = ()
    published: bool = False
    embeddings: str = ""
    islands: IslandsOf = _NO_ISLANDS


EVERYTHING = DrawingTerms()


def list_all(folders: Sequence[Path], terms: DrawingTerms = EVERYTHING) -> tuple[FigureEntry, ...]:
    """What can be drawn from folders of runs, campaigns and suites, and what is missing for the rest.

    Raises:
        UserError: a folder holds nothing to draw from, or a kind is unknown.
        StoreError: a journal cannot be read.
    """
    return tuple(_entry(kind, one) for kind, one in _planned(folders, terms))


def draw_all(
    folders: Sequence[Path], out: Path, formats: Sequence[str], terms: DrawingTerms = EVERYTHING
) -> tuple[FigureEntry, ...]:
    """Write every figure that can be drawn, with its CSV; the entries name the files.

    Raises:
        UserError: as `list_all`; a format is unknown; the extra `figures` is missing.
        StoreError: a journal cannot be read, or a file cannot be written.
    """
    check_formats(formats)
    found = []
    for kind, one in _planned(folders, terms):
        entry = _entry(kind, one)
        if isinstance(one, Drawing):
            entry = replace(entry, files=write_drawing(one, out, formats))
        found.append(entry)
    return tuple(found)


def _planned(folders: Sequence[Path], terms: DrawingTerms) -> list[tuple[FigureKind, Drawing | Lack]]:
    kinds = _chosen(terms.only)
    embeds = bool(terms.embeddings) and any(kind.reads_embeddings for kind in kinds)
    known = material(
        folders,
        WantedFacts(
            any(kind.reads_code for kind in kinds),
            Embeddings(terms.embeddings) if embeds else None,
            terms.islands if any(kind.reads_islands for kind in kinds) else _NO_ISLANDS,
        ),
    )
    if embeds:
        known = replace(known, embeddings=Path(terms.embeddings).resolve().name)
    if terms.published:
        known = replace(known, published=published())
    searched = any(True for _ in known.searches)
    return [
        (kind, one)
        for kind in kinds
        for one in (kind.plan(known) if searched or not kind.of_searches else (Lack(kind.name, _NO_SEARCH),))
    ]


def _chosen(only: Sequence[str]) -> tuple[FigureKind, ...]:
    names = [kind.name for kind in KINDS]
    for name in only:
        if name not in names:
            raise UserError(f"There is no kind of figure named '{name}'{nearest(name, names)}")
    return tuple(kind for kind in KINDS if not only or kind.name in only)


def _entry(kind: FigureKind, one: Drawing | Lack) -> FigureEntry:
    if isinstance(one, Lack):
        return FigureEntry(one.name, kind.name, kind.about, one.reason)
    return FigureEntry(one.name, kind.name, one.title)
