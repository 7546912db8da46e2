"""The records that figures are drawn from, the same for runs, campaigns and suites.

Knows contenders, cells, attempts and spans. Does not know where they come from (`reading`) or how
they are drawn (`kinds`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pike.core.verdict.profile import Profile
from pike.reporting.results import suite_of

OUTSIDE = "outside"
"""The role of a seed that was admitted from outside."""


class Measure(StrEnum):
    """What a search uses up, as the horizontal axis of a trajectory."""

    QUERIES = "queries"
    USD = "dollars"
    MINUTES = "minutes"


class Work(StrEnum):
    """What the time of a run goes into."""

    ASKING = "queries"
    BUILDING = "building"
    CHECKING = "correctness"
    TIMING = "timing"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Rise:
    """A new best of a search, and what had been used by then."""

    queries: float
    usd: float
    minutes: float
    best: float

    def at(self, measure: Measure) -> float:
        """Where it lies on an axis."""
        return {Measure.QUERIES: self.queries, Measure.USD: self.usd, Measure.MINUTES: self.minutes}[measure]


@dataclass(frozen=True, slots=True)
class WorkSpan:
    """A time in which one step was worked on, in seconds from the run's begin without its pauses."""

    work: Work
    begin: float
    end: float
    on_device: bool = False


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """What the source of a candidate shows.

    Attributes:
        lines: lines of code, without comments and blank lines.
        changed: lines added and removed since its seed; None where that is not known.
        similarity: to its seed, from 0 to 1; None where that is not known.
        techniques: what it is written with; read for the best candidate only.
        meant: similarity to its seed by embeddings; None where no model was named.
    """

    lines: int
    changed: int | None
    similarity: float | None
    techniques: tuple[str, ...]
    meant: float | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One judged candidate of a search.

    Attributes:
        id: of the candidate.
        seed: id of what it continues: the failing one for a repair.
        role: who was asked; `outside` for a seed from outside.
        model: which model wrote it.
        fix: which attempt at a repair it is, 0 for none.
        status: of the search's verdict.
        speedup: of the search's verdict, None unless valid.
        seed_speedup: of its seed, None where that was not valid.
        usd: what its query cost, None where unknown.
        code: what its source shows, None where sources were not read.
        island: where it lives, None where there are no islands.
        profile: where its time goes, None where it was not profiled.
        profiled_ms: its time in the verdict that holds the profile.
    """

    id: str
    seed: str
    role: str
    model: str
    fix: int
    status: str
    speedup: float | None
    seed_speedup: float | None
    usd: float | None
    code: CodeFacts | None
    profile: Profile | None
    profiled_ms: float | None
    island: int | None = None

    @property
    def valid(self) -> bool:
        """Whether the search's verdict accepts it."""
        return self.speedup is not None


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """A search as figures need it.

    Attributes:
        rises: the best so far, wherever it rose.
        ended: what had been used at the end.
        attempts: the judged candidates, in the order of their verdicts.
        spans: what was worked on, and when.
        best: id of the candidate that won, or that leads; empty without one.
        original_ms: time of the original.
        original_profile: where its time goes.
        baselines: speedups of baselines that were timed beside the finalists, by name.
    """

    rises: tuple[Rise, ...]
    ended: Rise
    attempts: tuple[Attempt, ...]
    spans: tuple[WorkSpan, ...]
    best: str
    original_ms: float | None = None
    original_profile: Profile | None = None
    baselines: dict[str, float | None] = field(default_factory=dict)

    def best_at(self, measure: Measure, at: float) -> float | None:
        """The best speedup of the search when so much had been used."""
        place = bisect_right([rise.at(measure) for rise in self.rises], at)
        return self.rises[place - 1].best if place else None

    @property
    def own_attempts(self) -> tuple[Attempt, ...]:
        """The attempts of the search itself, without seeds from outside."""
        return tuple(one for one in self.attempts if one.role != OUTSIDE)

    def attempt(self, id_: str) -> Attempt | None:
        """The attempt with this id."""
        return next((one for one in self.attempts if one.id == id_), None)


@dataclass(frozen=True, slots=True)
class DrawnCell:
    """One contender on one task, once.

    Attributes:
        task: its id.
        contender: its name in the figures.
        repeat: from 0.
        speedup: re-measured where it was; None without a valid candidate.
        search: its search, None where nothing was searched.
    """

    task: str
    contender: str
    repeat: int
    speedup: float | None
    search: SearchRecord | None = None


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A number that others published.

    Attributes:
        suite: of tasks, as they name it.
        contender: who.
        measure: what the number is, for example `geomean`.
        cut: where it was taken: `300 queries` or `$25 a task`; empty at the end.
        value: the number.
        source: where it stands.
    """

    suite: str
    contender: str
    measure: str
    cut: str
    value: float
    source: str


@dataclass(frozen=True, slots=True)
class Material:
    """Everything that figures can be drawn from.

    Attributes:
        cells: of all runs, campaigns and suites that were named.
        published: numbers to draw beside them; empty unless they are asked for.
        usd_marks: amounts of money a task at which contenders are marked.
        embeddings: the name of the model that embedded sources, empty for none.
    """

    cells: tuple[DrawnCell, ...]
    published: tuple[PublishedFigure, ...] = ()
    usd_marks: tuple[float, ...] = (25.0, 50.0)
    embeddings: str = ""

    @property
    def contenders(self) -> tuple[str, ...]:
        """All contenders, those that search first, in order of appearance."""
        names = dict.fromkeys(cell.contender for cell in self.cells)
        searching = {cell.contender for cell in self.cells if cell.search is not None}
        return tuple(sorted(names, key=lambda name: name not in searching))

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks, in order of appearance."""
        return tuple(dict.fromkeys(cell.task for cell in self.cells))

    @property
    def searches(self) -> Iterator[tuple[DrawnCell, SearchRecord]]:
        """Every search with its cell."""
        return ((cell, cell.search) for cell in self.cells if cell.search is not None)

    def by_suite(self) -> tuple[tuple[str, Material], ...]:
        """The material of each suite with the ending of its files: none where there is only one."""
        suites = tuple(dict.fromkeys(suite_of(cell.task) for cell in self.cells))
        return tuple(
            (
                f"-{suite.replace(':', '-') or 'own'}" if len(suites) > 1 else "",
                Material(
                    tuple(cell for cell in self.cells if suite_of(cell.task) == suite),
                    tuple(one for one in self.published if one.suite == suite),
                    self.usd_marks,
                ),
            )
            for suite in suites
        )

    def of(self, contender: str) -> tuple[DrawnCell, ...]:
        """The cells of a contender."""
        return tuple(cell for cell in self.cells if cell.contender == contender)

    def repeats(self, cells: Sequence[DrawnCell]) -> tuple[tuple[DrawnCell, ...], ...]:
        """Cells by repeat."""
        numbers = sorted({cell.repeat for cell in cells})
        return tuple(tuple(cell for cell in cells if cell.repeat == number) for number in numbers)
