"""Error fixing: attempts per success, success of repairs, and what a repaired sample cost.

Knows chains of repairs. Does not know why a candidate was refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.data.records import Attempt, Material, SearchRecord
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Lack, Sheet, number, numbers, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class _Repairs:
    """What the repairs of one search came to.

    Attributes:
        begun: failing candidates that were given to repair.
        mended: those of them that became valid.
        tried: attempts at repairs.
        usd: what they cost, None if a price is unknown.
    """

    begun: int
    mended: int
    tried: int
    usd: float | None


def _plan(material: Material) -> tuple[Drawing | Lack, ...]:
    valid = [one for _, search in material.searches for one in search.own_attempts if one.valid]
    if not valid:
        return (Lack("repairs-attempts", "no search has a valid candidate"), _rates(material))
    rows: list[tuple[Entry, ...]] = []
    most = max(one.fix for one in valid)
    for name in material.contenders:
        searches = [cell.search for cell in material.of(name) if cell.search]
        counts = Counter(one.fix for search in searches for one in search.own_attempts if one.valid)
        total = counts.total()
        rows += [(name, at, counts[at], counts[at] / total) for at in range(most + 1) if total]
    values = sheet("contender fix_attempts solutions share", rows, material.contenders)
    title = "Attempts at a repair before a candidate was valid"
    return Drawing("repairs-attempts", title, values, _draw_attempts), _rates(material)


def _rates(material: Material) -> Drawing | Lack:
    rows: list[tuple[Entry, ...]] = []
    for name in material.contenders:
        found = [_repairs(cell.search) for cell in material.of(name) if cell.search]
        begun, mended = sum(one.begun for one in found), sum(one.mended for one in found)
        if begun:
            costs = [one.usd for one in found]
            usd = None if None in costs else sum(cost for cost in costs if cost is not None)
            each = usd / mended if usd is not None and mended else None
            rows.append((name, begun, mended, mended / begun, sum(one.tried for one in found), usd, each))
    if not rows:
        return Lack("repairs-cost", "no search repaired a candidate")
    values = sheet("contender failing repaired rate attempts usd usd_each", rows, material.contenders)
    return Drawing("repairs-cost", "Repairs: success and cost", values, _draw_rates, (6.4, 1.3 + 0.3 * len(rows)))


def _repairs(search: SearchRecord) -> _Repairs:
    """Follow every chain of repairs to the candidate that it began with."""
    root: dict[str, str] = {}
    begun, mended = set(), set()
    fixes: Sequence[Attempt] = [one for one in search.attempts if one.fix]
    for one in fixes:
        first = root[one.id] = root.get(one.seed, one.seed)
        begun.add(first)
        if one.valid:
            mended.add(first)
    costs = [one.usd for one in fixes]
    usd = None if None in costs else sum(cost for cost in costs if cost is not None)
    return _Repairs(len(begun), len(mended), len(fixes), usd)


def _draw_attempts(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    names, styles = sheet.names("contender"), look.of_contenders(sheet)
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        rows = list(sheet.where(contender=name))
        left = [number(row["fix_attempts"]) - 0.4 + width * (place + 0.5) for row in rows]
        axes.bar(
            left, [100.0 * number(row["share"]) for row in rows], width * 0.92, color=styles[name]["color"], label=name
        )
    most = int(max(numbers(sheet.rows, "fix_attempts")))
    axes.set_xticks(range(most + 1), ["at once", *(str(at) for at in range(1, most + 1))])
    axes.set(xlabel="attempts at a repair", ylabel="% of valid candidates")
    axes.grid(axis="y")
    look.legend(figure, axes)


def _draw_rates(figure: Figure, sheet: Sheet) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    names, styles = sheet.names("contender"), look.of_contenders(sheet)
    for place, row in enumerate(sheet.rows):
        colour, rate, cost = styles[str(row["contender"])]["color"], number(row["rate"]), row["usd_each"]
        left.barh(place, 100.0 * rate, 0.6, color=colour)
        said = f"{100.0 * rate:.0f} % ({row['repaired']} of {row['failing']})"
        left.annotate(said, (100.0 * rate, place), (4, 0), textcoords="offset points", va="center", fontsize=7)
        if cost is not None:
            right.barh(place, number(cost), 0.6, color=colour)
        text = "price unknown" if cost is None else f"${number(cost):.3g}"
        right.annotate(text, (number(cost or 0.0), place), (4, 0), textcoords="offset points", va="center", fontsize=7)
    look.named_rows(left, names)
    left.set(xlim=(0, 135), xticks=[0, 50, 100], xlabel="% of failing candidates repaired")
    most = max(numbers(sheet.rows, "usd_each"), default=0.0)
    right.set(xlim=(0.0, 1.25 * most or 1.0), xlabel="US dollars a repaired candidate")


KIND = FigureKind("repairs", "attempts per success, success rate and cost of repairs", _plan)
