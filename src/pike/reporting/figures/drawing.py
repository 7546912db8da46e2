"""What a figure is made of: a sheet of values, and the function that draws it.

Knows that a figure is drawn from its sheet and from nothing else, so that its CSV says all of it.
Does not know any kind of figure, runs or files.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pike.reporting.figures.data.records import Material

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Entry = str | int | float | None
"""One value of a sheet; None is an empty cell of its CSV."""
Row = dict[str, Entry]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The values that a figure is drawn from.

    Attributes:
        columns: their names, with units.
        rows: the values by column.
        order: all contenders, so that each has one colour in every figure.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    order: tuple[str, ...] = ()

    def names(self, column: str) -> tuple[str, ...]:
        """The different words of a column: contenders in their own order, others as they appear."""
        found = dict.fromkeys(str(row[column]) for row in self.rows if row[column] is not None)
        if column == "contender" and self.order:
            return tuple(name for name in self.order if name in found)
        return tuple(found)

    def where(self, **wanted: Entry) -> Iterator[Row]:
        """The rows with these values."""
        return (row for row in self.rows if all(row[column] == value for column, value in wanted.items()))

    def csv(self) -> str:
        """The sheet as text; numbers have six significant digits."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_written(row[column]) for column in self.columns] for row in self.rows)
        return text.getvalue()


def sheet(columns: str, rows: Iterable[tuple[Entry, ...]], order: tuple[str, ...] = ()) -> Sheet:
    """A sheet from rows in the order of the columns, which are given in one string."""
    names = tuple(columns.split())
    return Sheet(names, tuple(dict(zip(names, row, strict=True)) for row in rows), order)


def number(value: Entry) -> float:
    """A value that is known to be a number."""
    if isinstance(value, str) or value is None:
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def numbers(rows: Iterable[Row], *columns: str) -> list[float]:
    """The numbers in some columns, row by row; empty entries are left out."""
    return [number(row[column]) for row in rows for column in columns if row[column] is not None]


def _written(value: Entry) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Drawing:
    """One figure that can be drawn.

    Attributes:
        name: of its files, without ending.
        title: what it shows.
        sheet: what it is drawn from.
        draw: draws the sheet.
        size: width and height in inches.
        texts: (ending, text) of further files with the same values.
    """

    name: str
    title: str
    sheet: Sheet
    draw: Callable[[Figure, Sheet], None]
    size: tuple[float, float] = (6.4, 3.6)
    texts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Lack:
    """One figure that cannot be drawn, and what is missing for it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class FigureKind:
    """One kind of figure.

    Attributes:
        name: by which it is asked for.
        about: what its figures show, in a phrase.
        plan: what can be drawn from the material, and what cannot.
        reads_code: whether it needs facts about the candidates' sources.
        reads_embeddings: whether it shows similarities by embeddings, where a model is named.
        reads_islands: whether it needs the islands of evolutionary searches.
        of_searches: whether it needs the journal of a search.
    """

    name: str
    about: str
    plan: Callable[[Material], tuple[Drawing | Lack, ...]]
    reads_code: bool = False
    reads_embeddings: bool = False
    reads_islands: bool = False
    of_searches: bool = True


def in_each_suite(
    drawing: Callable[[Material, str], Drawing | Lack],
) -> Callable[[Material], tuple[Drawing | Lack, ...]]:
    """A plan of one figure for each suite, with the ending of its files."""
    return lambda material: tuple(drawing(part, ending) for ending, part in material.by_suite())
