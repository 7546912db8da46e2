"""One simulated run of a real strategy, from the first ask to the re-measured best.

Knows how many steps are in flight and which ends first, by a simulated clock. Does not know suites
or statistics (`study`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest

from pike.core.step import Outcome, Step, Strategy
from pike.simulate.world import World


@dataclass(frozen=True, slots=True)
class OutcomePoint:
    """The state of a run when an outcome came in.

    Attributes:
        queries: queries whose outcome was known by then, this one included.
        usd: what they had cost.
        candidate: the valid candidate that came, empty for none.
        observed: the logarithm of its speedup as the search measured it.
    """

    queries: int
    usd: float
    candidate: str = ""
    observed: float = 0.0


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A finished simulated run.

    Attributes:
        world: its problem, with every program.
        admitted: recipe seeds that the strategy was given.
        points: one for each outcome of a query, in order.
        failing: samples whose first program failed and was given to a role that repairs.
        repaired: those of them that became valid.
    """

    world: World
    admitted: tuple[OutcomePoint, ...]
    points: tuple[OutcomePoint, ...]
    failing: int
    repaired: int

    def gain(self, queries: float = math.inf, usd: float = math.inf) -> float:
        """The logarithm of the speedup that a run with this budget reports, at least 0.

        The best few by their search times are measured again, as a real run does.
        """
        best = nlargest(self.world.finalists, self._valid(queries, usd), key=lambda point: point.observed)
        return max([0.0, *(self.world.final(point.candidate) for point in best)])

    def observed(self, queries: float = math.inf, usd: float = math.inf) -> float:
        """The same as the paper reports it: the luckiest measurement of the search."""
        return max([0.0, *(point.observed for point in self._valid(queries, usd))])

    def _valid(self, queries: float, usd: float) -> list[OutcomePoint]:
        known = (point for point in self.points if point.queries <= queries and point.usd <= usd)
        return [*self.admitted, *(point for point in known if point.candidate)]


def run(strategy: Strategy, world: World, *, concurrency: int = 10, recipe_seeds: bool = False) -> SimulatedRun:
    """Carry a simulated run out."""
    admitted = []
    for candidate, verdict in world.recipes() if recipe_seeds else ():
        strategy.admit(candidate, verdict)
        admitted.append(OutcomePoint(0, 0.0, candidate.id, math.log(verdict.speedup or 1.0)))
    outcomes = _outcomes(strategy, world, concurrency)
    return SimulatedRun(world, tuple(admitted), _points(outcomes), *_repairs(outcomes))


def _outcomes(strategy: Strategy, world: World, concurrency: int) -> list[tuple[Step, Outcome]]:
    """Every step with its outcome, in the order in which the simulated clock ends them."""
    now, ended = 0.0, []
    in_flight: list[tuple[float, Step, Outcome]] = []
    while not strategy.done:
        while len(in_flight) < concurrency and (step := strategy.ask()) is not None:
            answered = world.answer(step)
            in_flight.append((now + answered.seconds, step, answered.outcome))
        first = min(range(len(in_flight)), key=lambda index: in_flight[index][0])
        now, step, outcome = in_flight.pop(first)
        strategy.tell(outcome)
        ended.append((step, outcome))
    return ended


def _points(outcomes: Sequence[tuple[Step, Outcome]]) -> tuple[OutcomePoint, ...]:
    points, queries, usd = [], 0, 0.0
    for step, outcome in outcomes:
        queries += step.queries
        usd += outcome.usd or 0.0
        point = OutcomePoint(queries, usd)
        if outcome.candidate is not None and outcome.evaluation is not None and outcome.evaluation.speedup:
            point = OutcomePoint(queries, usd, outcome.candidate.id, math.log(outcome.evaluation.speedup))
        points.append(point)
    return tuple(points)


def _repairs(outcomes: Sequence[tuple[Step, Outcome]]) -> tuple[int, int]:
    """Follow every failing program through its repairs to the program it began as."""
    root: dict[str, str] = {}
    begun, repaired = set(), set()
    for step, outcome in outcomes:
        if step.failing is None or outcome.candidate is None or outcome.evaluation is None:
            continue
        first = root[outcome.candidate.id] = root.get(step.failing, step.failing)
        begun.add(first)
        if outcome.evaluation.valid:
            repaired.add(first)
    return len(begun), len(repaired)
