"""How alike candidates and their seeds are, by their tokens, and by a model's embeddings if one is named.

Knows attempts with facts about their sources. Does not compute the similarity (`code_facts`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.data.records import CodeFacts, Material
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Lack, Sheet, numbers, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _plan(material: Material) -> tuple[Drawing | Lack, ...]:
    tokens = "Similarity of candidate and seed (Dice coefficient of runs of three tokens)"
    drawn = _by("similarity", material, lambda code: code.similarity, tokens)
    model = material.embeddings
    if not model:
        return drawn, Lack("similarity-embeddings", "no model embeds sources: name one with --embeddings MODEL")
    title = f"Similarity of candidate and seed (cosine of embeddings by {model})"
    return drawn, _by("similarity-embeddings", material, lambda code: code.meant, title)


def _by(name: str, material: Material, alike: Callable[[CodeFacts], float | None], title: str) -> Drawing | Lack:
    rows: list[tuple[Entry, ...]] = [
        (cell.contender, cell.task, cell.repeat, one.id, at / len(search.attempts), found)
        for cell, search in material.searches
        for at, one in enumerate(search.attempts)
        if one.code is not None and (found := alike(one.code)) is not None and one.role != "outside"
    ]
    if not rows:
        return Lack(name, "no search has a candidate whose seed is known")
    values = sheet("contender task repeat candidate place_in_search similarity", rows, material.contenders)
    return Drawing(name, title, values, _draw, (7.0, 3.1))


def _draw(figure: Figure, sheet: Sheet) -> None:
    left, right = figure.subplots(1, 2)
    styles = look.of_contenders(sheet)
    lowest = 1.0
    for name in sheet.names("contender"):
        rows, style = list(sheet.where(contender=name)), styles[name]
        found = numbers(rows, "similarity")
        look.mean_over_search(left, rows, "similarity", label=name, **style)
        shares = [100.0 * (at + 1) / len(found) for at in range(len(found))]
        right.step(sorted(found), shares, where="post", color=style["color"], linestyle=style["linestyle"])
        lowest = min(lowest, *found)
    left.margins(y=0.1)
    left.set_ylabel("mean similarity")
    right.set(xlim=(min(lowest, 0.95), 1.005), xlabel="similarity")
    right.set(ylim=(0, 101), ylabel="% of candidates up to it")
    right.grid()
    look.legend(figure, left)


KIND = FigureKind(
    "similarity",
    "similarity of candidate and seed, by tokens, and by embeddings of a named model",
    _plan,
    reads_code=True,
    reads_embeddings=True,
)
