"""The page of one suite on one kind of device: a summary of one screen, then a table for each
precision.

Knows words and tables. Does not know files nor how figures are computed (`pike.reporting`).
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pages.chart import all_counted
from pages.cold import COLD, NO_SEARCHES, ColdSearches
from pages.drawn import DrawnFigures, name_of
from pages.markdown import GENERATED, plain_ms, safe, table
from pages.published import NOT_COMPARED, SEE_OTHER_ARITHMETIC, PublishedFigures, PublishedTimes
from pike.core import figures
from pike.core.comparison.contender import ContenderKind
from pike.core.comparison.results import Result
from pike.core.verdict.evaluation import FASTER_MARGIN, Evaluation
from pike.reporting.results import Column, ResultsTable, certainly_slower, place_of, stem_of
from pike.reporting.standings import clamped_geomean

PEER = "compile:max-autotune"
"""The baseline that stands beside recipes in every table of tasks."""
RECIPES = "recipes"
WINNERS = "recipes, accumulated winners"
"""The heading of the recipes' column: the best of all searches, most of which knew what had won before."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a page needs beside its own tables.

    Attributes:
        published: figures that others published.
        command: what generates the page.
        members: digests of the present texts of all tasks, by id. They show results of earlier
            texts.
        cold: searches from nothing.
        drawn: figures of each table, by `name_of`.
        winners: verified results of the gallery.
    """

    published: PublishedFigures
    command: str
    members: Mapping[str, str]
    cold: ColdSearches = NO_SEARCHES
    drawn: Mapping[str, DrawnFigures] = field(default_factory=dict)
    winners: Sequence[Result] = ()

    def images(self, found: ResultsTable, only: str = "") -> Iterator[str]:
        """The figures of a table, or one of them."""
        return self.drawn.get(name_of(page_name(found.suite, found.device), found), DrawnFigures()).images(only)


def page_name(suite: str, device: str) -> str:
    """The file of a page, for example `level3-pike-h100.md`."""
    kind = re.search(r"[A-Z]\d+\w*", device)
    words = kind.group() if kind else device
    return re.sub(r"[^a-z0-9]+", "-", f"{suite or 'own-tasks'}-{words}".lower()).strip("-") + ".md"


def suite_page(found: Sequence[ResultsTable], context: Context) -> str:
    """The page of tables that share suite and device.

    Args:
        found: at least one table, one for each precision.
        context: what is shown beside them.
    """
    suite, device = found[0].suite or "tasks outside suites", found[0].device
    times = context.published.times_of(found[0].suite)
    parts = [f"# {suite} on {device}", GENERATED.format(command=context.command), *_summary(found, context)]
    for one in found:
        parts += [f"## Precision {one.precision.value}", _contenders(one), *_notes(one), *context.images(one)]
        parts += _halves(one)
        parts += [_tasks(one, times, context), *_failures(one)]
    parts += ["## Where it was measured", *_places([cell for one in found for cell in one.cells.values()])]
    return "\n\n".join(parts) + "\n"


def recipes_of(found: ResultsTable) -> Column | None:
    """The recipes' column, None where they were not measured."""
    kind = ContenderKind.RECIPES
    return next((one for one in found.columns if one.contender.kind is kind and one.tried), None)


def over_published(found: ResultsTable, column: Column, times: PublishedTimes | None) -> str:
    """A column's own times against eager's on the published tasks and the same kind of GPU, where both compute the
    same; a dash without those."""
    if times is None or not times.is_of(found.device):
        return figures.NOTHING
    same = tuple(task for task in found.tasks if task.partition("_")[0] not in NOT_COMPARED)
    name = column.contender.name
    return figures.times(clamped_over(replace(found, tasks=same), name, lambda task: times.eager_ms(stem_of(task))))


def clamped_over(found: ResultsTable, contender: str, eager_ms: Callable[[str], float | None]) -> float:
    """A contender's clamped geomean against other times of eager; 1 for a task without one."""
    speedups = []
    for task in found.tasks:
        result, eager = found.cells.get((task, contender)), eager_ms(task)
        timed = result.evaluation.timing if result and result.evaluation and not result.original else None
        speedups.append(eager / timed.candidate_ms if timed and eager is not None else None)
    return clamped_geomean(speedups)


def lead(leads: Sequence[float]) -> str:
    """How far recipes are ahead of the fastest baseline of each task, over how many tasks, and
    where they are not."""
    if not leads:
        return figures.NOTHING
    return f"{figures.times(statistics.geometric_mean(leads))} ({len(leads)}; behind on {_lost(leads)})"


def _lost(leads: Sequence[float]) -> int:
    return sum(lead * (1.0 + FASTER_MARGIN) < 1.0 for lead in leads)


def behind(column: Column | None) -> str:
    """How many times as long as the recipes' candidates a contender's take, and over how many
    tasks."""
    if column is None or column.behind is None:
        return figures.NOTHING
    return f"{figures.times(column.behind)} ({column.compared})"


def _summary(found: Sequence[ResultsTable], context: Context) -> Iterator[str]:
    times = context.published.times_of(found[0].suite)
    names = dict.fromkeys(column.contender.name for one in found for column in one.columns)
    rows = [[_heading(name), *(_reached(one, name) for one in found)] for name in names]
    rows.insert(1, [f"recipes, {COLD}", *(context.cold.over(one) for one in found)])
    yield (
        "Clamped geometric mean of the speedup over eager, over the tasks that were tried. The brackets say\n"
        "on how many tasks the contender is valid."
    )
    yield table(["contender", *(one.precision.value for one in found)], rows)
    lines = [_ahead(one, recipes, times, context.winners) for one in found if (recipes := recipes_of(one))]
    if lines:
        yield "\n".join(lines)
    if any(one.suite == found[0].suite for one in context.published.geomeans):
        yield SEE_OTHER_ARITHMETIC
    yield "[How to read these pages](reading.md) defines every column."


def _ahead(found: ResultsTable, recipes: Column, times: PublishedTimes | None, winners: Sequence[Result]) -> str:
    """How far recipes are ahead at one precision, and how far with winners of the gallery in their place."""
    words = f"- `{found.precision.value}`: {_how_far(found, recipes, times, 'recipes')}"
    placed = {
        (one.task, recipes.contender.name): replace(one, contender=recipes.contender)
        for one in winners
        if (one.provenance.device.name, one.precision) == (found.device, found.precision)
        and _is_faster(one, found.cells.get((one.task, recipes.contender.name)))
    }
    if placed:
        names = ", ".join(task.partition("/")[2] for task, _ in sorted(placed, key=lambda key: place_of(key[0])))
        words += f"\n  With verified winners of [the gallery](../gallery/index.md) on {names} instead,"
        words += f"\n  {_how_far(replace(found, cells=found.cells | placed), recipes, times, 'these')}"
    return words


def _how_far(found: ResultsTable, recipes: Column, times: PublishedTimes | None, who: str) -> str:
    lines, leads = [], found.leads(recipes)
    if leads:
        mean = statistics.geometric_mean(leads)
        lines.append(f"the fastest baseline of each task takes {mean:.2f} times as long as {who};")
        lines.append(f"{who} are behind on {_lost(leads)} of {len(leads)} tasks.")
    if times is not None and times.is_of(found.device):
        reached = over_published(found, recipes, times)
        lines.append(f"Against eager on the published tasks, {who} reach {reached}, clamped.")
    return "\n  ".join(lines)


def _is_faster(one: Result, other: Result | None) -> bool:
    mine, theirs = (each.evaluation.candidate_ms if each and each.evaluation else None for each in (one, other))
    return bool(mine and theirs and mine < theirs)


def _reached(found: ResultsTable, name: str) -> str:
    column = next((one for one in found.columns if one.contender.name == name), None)
    if column is None or column.clamped is None:
        return figures.NOTHING
    return f"{figures.times(column.clamped)} ({column.valid} of {len(found.tasks)})"


def _contenders(found: ResultsTable) -> str:
    head = ["contender", "clamped", "raw", "valid", "failed", "slower", "build s", "minutes", "recipes ahead"]
    return table(head, [_contender(column, len(found.tasks)) for column in found.columns])


def _halves(found: ResultsTable) -> Iterator[str]:
    """Both halves and the families of a zoo, the half on which no recipe is developed first."""
    if not found.parts:
        return
    names = [column.contender.name for column in found.columns]
    rows = []
    for part in found.parts:
        reached = {column.contender.name: figures.times(column.clamped) for column in part.columns}
        own = (reached.get(name, figures.NOTHING) for name in names)
        rows.append([part.part, str(len(part.tasks)), *own, lead(part.ahead)])
    yield table(["part", "tasks", *map(_heading, names), "recipes ahead"], rows)


def _contender(column: Column, tasks: int) -> list[str]:
    if column.clamped is None:
        return [_heading(column.contender.name), "*not measured*", "", f"0 of {tasks}", "", "", "", "", ""]
    return [
        _heading(column.contender.name),
        figures.times(column.clamped),
        figures.times(column.raw),
        f"{column.valid} of {tasks}",
        str(column.tried - column.valid),
        str(column.slower),
        figures.NOTHING if column.build_seconds is None else f"{column.build_seconds:.1f}",
        f"{column.minutes:.1f}",
        behind(column),
    ]


def _notes(found: ResultsTable) -> Iterator[str]:
    lines, count = [], len(found.tasks)
    for column in found.columns:
        lines += [f"- {column.contender.name}, *not measured*: {safe(reason)}" for reason in column.missing]
        if column.clamped is not None and column.tried < count:
            words = f"- {column.contender.name}: its figures are over {column.tried} of {count} tasks"
            if column.contender.kind is ContenderKind.RECIPES:  # of others it would say less than is true
                words += f"; clamped, with 1 for each of the others, {figures.times(all_counted(found, column))}"
            lines.append(f"{words}.")
    if lines:
        yield "\n".join(lines)


def _heading(contender: str) -> str:
    return WINNERS if contender == RECIPES else contender


def _tasks(found: ResultsTable, times: PublishedTimes | None, context: Context) -> str:
    names = [column.contender.name for column in found.columns if column.tried or column.missing]
    names.sort(key=lambda name: name != PEER)
    recipes = recipes_of(found) is not None
    published, used = ["published eager ms"] * bool(times), [COLD, "recipes used"] * recipes
    rows = []
    for task in found.tasks:
        row = [stem_of(task), plain_ms(found.eager_ms(task))]
        row += [plain_ms(times.eager_ms(stem_of(task)))] if times else []
        row += [_cell(found.cells.get((task, name)), context.members.get(task)) for name in names]
        row += [context.cold.cell(found, task), _composition(found, task)] * recipes
        rows.append(row)
    return table(["task", "eager ms", *published, *map(_heading, names), *used], rows)


def _cell(result: Result | None, task_digest: str | None) -> str:
    """What a contender reached on a task, whose present text has this digest; None where it is not
    known."""
    if result is not None and result.original:
        return f"{figures.times(1.0)} (original)"
    if result is None or result.evaluation is None:
        return figures.NOTHING
    if result.speedup is None or result.evaluation.timing is None:
        return result.evaluation.status.value
    time = f"{plain_ms(result.evaluation.timing.candidate_ms)} ms"
    remarks = [", slower"] if certainly_slower(result) else []
    remarks += [", disturbed"] if result.evaluation.disturbed else []
    remarks += [", earlier text"] if task_digest not in (None, result.task_digest) else []
    return f"{figures.times(result.speedup)} ({time}{''.join(remarks)})"


def _composition(found: ResultsTable, task: str) -> str:
    mine = [cell for (id_, _), cell in found.cells.items() if id_ == task and cell.recipes]
    return next((" + ".join(one.recipes) for one in mine), figures.NOTHING)


def _failures(found: ResultsTable) -> Iterator[str]:
    lines = [
        f"- {stem_of(task)}, {column.contender.name}: {_refusal(result.evaluation)}"
        for column in found.columns
        for task in found.tasks
        if (result := found.cells.get((task, column.contender.name))) and result.evaluation and result.speedup is None
    ]
    if lines:
        yield f'??? note "{figures.plural(len(lines), "refusal")}"\n' + "\n".join(
            f"    {line}" for line in ["", *lines]
        )


def _refusal(evaluation: Evaluation) -> str:
    return f"{evaluation.status.value}: {safe(evaluation.reason)}"


def _places(results: Iterable[Result]) -> Iterator[str]:
    """Machine, versions and command of each group of results that share them."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if not result.missing:
            groups.setdefault((_place(result), result.provenance.command), []).append(result)
    for (place, command), members in groups.items():
        dates = sorted(result.provenance.date[:10] for result in members)
        states = [one.evaluation.timing.state for one in members if one.evaluation and one.evaluation.timing]
        clocks = sorted(state.candidate_sm_mhz for state in states if state and state.candidate_sm_mhz is not None)
        lines = [f"- {figures.plural(len(members), 'result')}, {dates[0]} to {dates[-1]}: {place}"]
        if clocks:
            lines.append(f"  Clock of the multiprocessors: {clocks[0]:.0f} to {clocks[-1]:.0f} MHz.")
        if command:
            lines.append(f"  `{command}`")
        yield "\n".join(lines)


def _place(result: Result) -> str:
    known = result.provenance
    versions = ", ".join(f"{name} {version}" for name, version in known.device.versions)
    commit = f" at {known.commit}" if known.commit else ""
    shared = " Baselines of one task shared compilers' caches, so build times are short." * known.shared_caches
    return f"{versions}; effort `{known.effort.value}`, PIKE {known.pike_version}{commit}.{shared}"
