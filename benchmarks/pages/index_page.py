"""The first page of results, and the page of what others published.

Knows words and tables. Does not know files nor how figures are computed (`pike.reporting`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pages.chart import all_counted
from pages.cold import COLD
from pages.drawn import CAMPAIGN, GALLERY, TRUE_CAMPAIGN, DrawnFigures
from pages.markdown import GENERATED, plain_ms, table
from pages.published import OTHER_ARITHMETIC, SEE_OTHER_ARITHMETIC, PublishedFigures, PublishedTimes
from pages.suite_page import PEER, WINNERS, Context, behind, lead, over_published, page_name, recipes_of
from pike.core import figures
from pike.reporting.results import ResultsTable

_INTRODUCTION = """Recipes cost no query and no money. *Accumulated winners* are the best that any search over recipes
has found, most of them started from what had won before. *Cold* is what one search from nothing
has after ten minutes. *Verdicts* says on how many tasks the judge reached one on recipes; a task
without one counts as 1.

The last two columns are no speedups over eager. They divide the time of `{peer}`, and
that of the fastest baseline of each task, by the time of the recipes' candidate: 2× means that the
baseline takes twice as long. The brackets say over how many tasks, and on how many the baseline is
ahead by more than one percent."""


_OTHER_TASKS = """Where the means on `{suite}` would lie on other tasks of the same kind, at precision
`{precision}`:"""


def index_page(found: Sequence[ResultsTable], context: Context, beside: str = "") -> str:
    """What recipes reach on every suite and device, a line for each precision, with links to the
    pages; and a sentence `beside` them."""
    parts = ["# Results", GENERATED.format(command=context.command)]
    if not found:
        parts.append("Nothing has been measured yet.")
    else:
        parts += ["![Clamped geometric means on Level 3-pike](../assets/level3-pike-h100.svg)"]
        for image in context.images(found[0], "spread"):
            parts += [_OTHER_TASKS.format(suite=found[0].suite, precision=found[0].precision.value), image]
        parts += [
            f"[A campaign answered by coding agents]({TRUE_CAMPAIGN}.md), on an H100, has figures as the papers have "
            f"them, and so have [the gallery's searches]({GALLERY}.md); [one on a CPU]({CAMPAIGN}.md) shows every kind."
        ]
        parts += [_INTRODUCTION.format(peer=PEER), _glance(found, context)]
    parts += [beside] if beside else []
    parts += [*_best_published(context.published), "[How to read these pages](reading.md) defines every column."]
    return "\n\n".join(parts) + "\n"


def published_page(published: PublishedFigures, command: str, drawn: DrawnFigures | None = None) -> str:
    """All published figures: geometric means, times of single tasks, and a figure of both beside ours."""
    parts = ["# Published figures", GENERATED.format(command=command)]
    rows = [[one.suite, one.contender, figures.times(one.clamped), one.source] for one in published.geomeans]
    parts += ["Geometric means as their authors published them, measured by their own evaluators."]
    parts += [table(["suite", "contender", "clamped", "source"], rows), SEE_OTHER_ARITHMETIC]
    parts += drawn.images() if drawn else ()
    for times in published.times:
        parts += _times(times)
    return "\n\n".join(parts) + "\n"


def _glance(found: Sequence[ResultsTable], context: Context) -> str:
    rows = []
    for one in found:
        if recipes := recipes_of(one):
            peer = next((column for column in one.columns if column.contender.name == PEER), None)
            link = f"[{one.suite or 'own tasks'}]({page_name(one.suite, one.device)})"
            row = [link, one.device, one.precision.value, figures.times(all_counted(one, recipes))]
            row += [context.cold.over(one)]
            row += [f"{recipes.tried} of {len(one.tasks)}"]
            row += [over_published(one, recipes, context.published.times_of(one.suite))]
            rows.append([*row, behind(peer), lead(one.leads(recipes))])
    head = ["suite", "device", "precision", WINNERS, COLD, "verdicts", "over published eager"]
    peer = f"{PEER.partition(':')[2]}'s time / ours (tasks)"
    return table([*head, peer, "fastest baseline's time / ours (tasks)"], rows)


def _best_published(published: PublishedFigures) -> Iterator[str]:
    """What others reached on each suite, the best first."""
    lines = []
    for suite in dict.fromkeys(one.suite for one in published.geomeans):
        of_suite = sorted((one for one in published.geomeans if one.suite == suite), key=lambda one: -one.clamped)
        reached = "; ".join(f"{one.contender} {figures.times(one.clamped)}" for one in of_suite)
        sources = ", ".join(dict.fromkeys(one.source for one in of_suite))
        lines.append(f"- {suite} ({sources}): {reached}.")
    if lines:
        yield "[Published figures](published.md), by the authors' own evaluator on their own tasks:"
        yield "\n".join(lines)
        yield OTHER_ARITHMETIC


def _times(times: PublishedTimes) -> Iterator[str]:
    yield f"## {times.suite}: single tasks, measured outside this judge"
    yield "\n".join(times.about)
    names = times.contenders
    means = [times.geomeans(name) for name in names]
    rows = [["**clamped**", "", *(figures.times(clamped) for clamped, _, _ in means)]]
    rows.append(["**raw**", "", *(figures.times(raw) for _, raw, _ in means)])
    rows.append(["**with a time**", "", *(f"{count} of {len(times.rows)}" for _, _, count in means)])
    for task, _ in times.rows:
        speedups = [times.speedup(task, name) for name in names]
        words = [one if isinstance(one, str) else figures.times(one) for one in speedups]
        rows.append([task, plain_ms(times.eager_ms(task)), *words])
    yield table(["task", "eager ms", *names], rows)
