"""Simulated tasks: the possible gain of each, its hardness, and its recipes.

Knows how one task and a whole suite are drawn. Does not know programs (`programs`) or strategies.
"""

import math
import random
from dataclasses import dataclass
from statistics import NormalDist

from pike.core.rng import stream
from pike.simulate.parameters import Parameters


@dataclass(frozen=True, slots=True)
class SimulatedTask:
    """One simulated task.

    Attributes:
        ceiling: the most that can be gained.
        hardness: what the task adds to the odds of being right.
        obvious: the plateau of the approach that comes to mind first.
        ideas: plateaus of ten brainstormed approaches, the most promising first.
        recipes: (gain, plateau) of each recipe that works.
    """

    name: str
    ceiling: float
    hardness: float
    obvious: float
    ideas: tuple[float, ...]
    recipes: tuple[tuple[float, float], ...]


IDEAS = 10
MISJUDGED = 0.25
"""The error in the order of ideas, as a part of the ceiling."""


def plateau(rng: random.Random, ceiling: float, shape: float) -> float:
    """The plateau of one approach on a task."""
    return float(ceiling * rng.random() ** shape)


def suite(parameters: Parameters, tasks: int, seed: int = 0) -> tuple[SimulatedTask, ...]:
    """A suite of tasks whose ceilings lie evenly over their distribution."""
    rng = stream(seed, "simulated suite")
    ranks = [(index + 0.5) / tasks for index in range(tasks)]
    hard = ranks.copy()
    rng.shuffle(hard)
    return tuple(
        _task(parameters, f"task {index + 1}", rank, difficulty, stream(seed, f"simulated task {index}"))
        for index, (rank, difficulty) in enumerate(zip(ranks, hard, strict=True))
    )


def _task(parameters: Parameters, name: str, rank: float, difficulty: float, rng: random.Random) -> SimulatedTask:
    terrain, normal = parameters.terrain, NormalDist()
    ceiling = terrain.ceiling * math.exp(terrain.ceiling_spread * normal.inv_cdf(rank))
    approaches = [plateau(rng, ceiling, terrain.approach_shape) for _ in range(IDEAS + 1)]
    ideas = sorted(approaches[1:], key=lambda each: -each + MISJUDGED * ceiling * rng.gauss(0.0, 1.0))
    return SimulatedTask(
        name=name,
        ceiling=ceiling,
        hardness=terrain.hardness_spread * normal.inv_cdf(difficulty),
        obvious=approaches[0],
        ideas=tuple(ideas),
        recipes=_recipes(parameters, ceiling, rng),
    )


def _recipes(parameters: Parameters, ceiling: float, rng: random.Random) -> tuple[tuple[float, float], ...]:
    known, found = parameters.recipes, []
    for _ in range(known.count):
        works, reach, room = rng.random() < known.valid, rng.random(), rng.random()
        if works:
            gain = ceiling * reach**known.shape
            found.append((gain, gain + (ceiling - gain) * min(1.0, 2.0 * known.room * room)))
    return tuple(found)
