"""One simulated run of a real strategy, from the first ask to the re-measured best.

Knows how many steps are in flight and which ends first, by a clock of its own that never looks at the real one. Does
not know suites or statistics (`study`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest

from pike.core.evaluation import Evaluation
from pike.core.step import Candidate, Outcome, Step, Strategy
from pike.search.drive import drive
from pike.search.simulate.world import Answered, World


@dataclass(frozen=True, slots=True)
class Point:
    """What was known when an outcome came in.

    Attributes:
        queries: queries whose outcome was known by then, this one included.
        usd: what they had cost.
        candidate: the valid candidate that came, empty for none.
        observed: the logarithm of its speedup as the search measured it.
    """

    queries: int
    usd: float
    candidate: str
    observed: float


@dataclass(frozen=True, slots=True)
class Repairs:
    """How repairs went.

    Attributes:
        failing: samples whose first program failed and was given to a role that repairs.
        repaired: those of them that became valid.
    """

    failing: int
    repaired: int


@dataclass(frozen=True, slots=True)
class Trial:
    """A finished simulated run.

    Attributes:
        world: its problem, with every program.
        admitted: recipe seeds that the strategy was given.
        points: one for each outcome of a query, in order.
        repairs: how repairs went.
    """

    world: World
    admitted: tuple[Point, ...]
    points: tuple[Point, ...]
    repairs: Repairs

    def gain(self, queries: float = math.inf, usd: float = math.inf) -> float:
        """The logarithm of the speedup that a run with this budget reports.

        The best few by their search times are measured again, as a real run does. Clamped: 0 is the least.
        """
        known = [*self.admitted, *(p for p in self.points if p.queries <= queries and p.usd <= usd)]
        finalists = self.world.finalists
        best = nlargest(finalists, (p for p in known if p.candidate), key=lambda p: p.observed)
        return max([0.0, *(self.world.final(point.candidate) for point in best)])

    def observed(self, queries: float = math.inf, usd: float = math.inf) -> float:
        """The same as the paper reports it: the luckiest measurement of the search, never repeated."""
        known = [*self.admitted, *(p for p in self.points if p.queries <= queries and p.usd <= usd)]
        return max([0.0, *(point.observed for point in known if point.candidate)])


class _Clock:
    """Decides which step in flight ends next: the one whose model and judge take the least time."""

    def __init__(self, strategy: Strategy, world: World) -> None:
        self._strategy = strategy
        self._world = world
        self._now = 0.0
        self._ends: list[float] = []
        self.answers: dict[int, Answered] = {}
        self.steps: dict[int, Step] = {}

    def ask(self) -> Step | None:
        """Ask the strategy, and note when the answer will be there."""
        step = self._strategy.ask()
        if step is not None:
            answered = self._world.answer(step)
            self.answers[step.id], self.steps[step.id] = answered, step
            self._ends.append(self._now + answered.seconds)
        return step

    def pick(self, _waiting: int) -> int:
        """The index of the step that ends first."""
        first = min(range(len(self._ends)), key=self._ends.__getitem__)
        self._now = self._ends.pop(first)
        return first

    def answer(self, step: Step) -> Outcome:
        """What the step brought."""
        return self.answers[step.id].outcome

    def tell(self, outcome: Outcome) -> None:
        """Tell the strategy."""
        self._strategy.tell(outcome)

    def admit(self, candidate: Candidate, evaluation: Evaluation) -> None:
        """Give the strategy a seed."""
        self._strategy.admit(candidate, evaluation)

    @property
    def done(self) -> bool:
        """Whether the strategy is."""
        return self._strategy.done


def run(strategy: Strategy, world: World, *, concurrency: int = 10, recipe_seeds: bool = False) -> Trial:
    """Carry a simulated run out.

    Args:
        strategy: a new one.
        world: its problem, new as well.
        concurrency: steps in flight at once.
        recipe_seeds: admit the recipes that work before the first ask.
    """
    admitted = []
    for candidate, verdict in world.recipes() if recipe_seeds else ():
        strategy.admit(candidate, verdict)
        admitted.append(Point(0, 0.0, candidate.id, math.log(verdict.speedup or 1.0)))
    clock = _Clock(strategy, world)
    calls = drive(clock, clock.answer, concurrency=concurrency, pick=clock.pick)
    outcomes = [call for call in calls if isinstance(call, Outcome)]
    return Trial(world, tuple(admitted), _points(outcomes, clock.steps), _repairs(outcomes, clock.steps))


def _points(outcomes: Sequence[Outcome], steps: dict[int, Step]) -> tuple[Point, ...]:
    points, queries, usd = [], 0, 0.0
    for outcome in outcomes:
        queries += steps[outcome.step_id].queries
        usd += outcome.usd or 0.0
        valid = outcome.candidate is not None and outcome.evaluation is not None and outcome.evaluation.valid
        speedup = outcome.evaluation.speedup if valid and outcome.evaluation else None
        points.append(
            Point(queries, usd, outcome.candidate.id, math.log(speedup))
            if speedup and outcome.candidate
            else Point(queries, usd, "", 0.0)
        )
    return tuple(points)


def _repairs(outcomes: Sequence[Outcome], steps: dict[int, Step]) -> Repairs:
    """Follow every failing program through its repairs to the program it began as."""
    root: dict[str, str] = {}
    begun, mended = set(), set()
    for outcome in outcomes:
        failing = steps[outcome.step_id].failing
        if failing is None or outcome.candidate is None or outcome.evaluation is None:
            continue
        first = root[outcome.candidate.id] = root.get(failing, failing)
        begun.add(first)
        if outcome.evaluation.valid:
            mended.add(first)
    return Repairs(len(begun), len(mended))
