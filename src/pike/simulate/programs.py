"""Simulated programs, and what a model does to them: tweak, rewrite, cross with another, repair.

Knows a program as a gain, a plateau and defects. Does not know steps, roles or money (`world`). An
approach can be tweaked up to its own plateau and no further; only another approach has another one.
"""

import math
import random
from dataclasses import dataclass

from pike.simulate.parameters import Model, Parameters
from pike.simulate.tasks import SimulatedTask, plateau

TWEAK = 0.6
"""Boldness of the largest tweak; a rewrite has 1."""
SLOWEST = -math.log(1000.0)
"""No program is slower than this. A judge's time limit would end it, and a long chain of
failing repairs would lose more than floats can hold."""
CROSSING = 0.6
"""Boldness of a step that takes over a shown approach."""


@dataclass(slots=True)
class SimulatedProgram:
    """One program.

    Attributes:
        gain: logarithm of its true speedup; for a failing program, as if it were right.
        plateau: the most that its approach can gain.
        boldness: how large the step was that made it.
        stubborn: how hard its defects are to find, for good.
    """

    gain: float
    plateau: float
    compiles: bool = True
    right: bool = True
    boldness: float = 0.0
    stubborn: float = 0.0

    @property
    def valid(self) -> bool:
        """Whether the judge accepts it."""
        return self.compiles and self.right


@dataclass(frozen=True, slots=True)
class StepRequest:
    """The wishes of a step beside its seed.

    Attributes:
        plateau: of the idea to carry out, None without one.
        shown: the best valid inspiration, None if none is shown.
        rewrite_share: chance of another approach.
        planned: whether a plan is carried out.
        model: the model that writes.
    """

    plateau: float | None
    shown: SimulatedProgram | None
    rewrite_share: float
    planned: bool
    model: Model


def write(
    rng: random.Random, parameters: Parameters, task: SimulatedTask, seed: SimulatedProgram, wish: StepRequest
) -> SimulatedProgram:
    """A new program from a seed; the original has nothing to tweak, so it is always rewritten."""
    writing = parameters.writing
    share, stride, size = wish.rewrite_share, writing.stride * wish.model.insight, rng.random()
    if wish.shown is not None:
        share, stride = share * writing.caution, stride * writing.caution
    if wish.planned:
        stride *= writing.planned
    if wish.plateau is not None or not seed.plateau or rng.random() < share:
        program = _rewritten(rng, parameters, task, seed, wish)
    elif wish.shown is not None and rng.random() < writing.cross:
        program = _crossed(rng, parameters, seed, wish.shown)
    else:
        program = _tweaked(rng, parameters, seed, size, stride)
    program.boldness *= (writing.caution if wish.shown is not None else 1.0) * (1.0 - writing.surety * wish.planned)
    _check(rng, parameters, task, program, wish.model)
    return program


def repair(
    rng: random.Random, parameters: Parameters, failing: SimulatedProgram, attempt: int, *, model: Model, planned: bool
) -> SimulatedProgram:
    """The failing program after one attempt, which finds one defect and gives up some gain."""
    validity = parameters.validity
    odds = validity.fix_odds + model.fix_odds - validity.fix_boldness * failing.boldness - failing.stubborn
    chance = _chance(odds - validity.decline * (attempt - 1) + validity.informed * planned)
    compiles, right = failing.compiles, failing.right
    if not compiles:
        compiles = rng.random() < chance
    if compiles and not right:
        right = rng.random() < chance
    lost = min(1.0, 2.0 * validity.fix_loss * rng.random())
    gain = max(SLOWEST, failing.gain - lost * abs(failing.gain))
    return SimulatedProgram(gain, failing.plateau, compiles, right, failing.boldness, failing.stubborn)


def _rewritten(
    rng: random.Random, parameters: Parameters, task: SimulatedTask, seed: SimulatedProgram, wish: StepRequest
) -> SimulatedProgram:
    writing, terrain = parameters.writing, parameters.terrain
    if wish.plateau is not None:
        top = wish.plateau
    elif rng.random() < terrain.habit:
        top = task.obvious
    else:
        top = plateau(rng, task.ceiling, terrain.approach_shape)
    start = writing.keep * max(0.0, min(seed.gain, top))
    reach = min(1.0, 2.0 * writing.first * rng.random() * wish.model.insight)
    return SimulatedProgram(start + (top - start) * reach, top, boldness=1.0)


def _crossed(
    rng: random.Random, parameters: Parameters, seed: SimulatedProgram, shown: SimulatedProgram
) -> SimulatedProgram:
    """The better of two approaches at the gain of the better program, less a loss."""
    gain = max(seed.gain, shown.gain) - parameters.writing.slip * rng.expovariate(1.0)
    return SimulatedProgram(gain, max(seed.plateau, shown.plateau), boldness=CROSSING)


def _tweaked(
    rng: random.Random, parameters: Parameters, seed: SimulatedProgram, size: float, stride: float
) -> SimulatedProgram:
    writing, gain, draw = parameters.writing, seed.gain, rng.random()
    if draw < writing.improve:
        gain += max(0.0, seed.plateau - gain) * min(1.0, 2.0 * size * stride)
    elif draw < writing.improve + writing.hurt:
        gain -= writing.slip * 2.0 * size * rng.expovariate(1.0)
    return SimulatedProgram(max(SLOWEST, gain), seed.plateau, boldness=TWEAK * size)


def _check(
    rng: random.Random, parameters: Parameters, task: SimulatedTask, program: SimulatedProgram, model: Model
) -> None:
    """Draw the defects of a new program."""
    validity = parameters.validity
    ease = task.hardness + model.valid_odds - validity.boldness * program.boldness
    program.compiles = rng.random() < _chance(validity.compile_odds + ease)
    program.right = rng.random() < _chance(validity.right_odds + ease)
    if not program.valid:
        program.stubborn = program.boldness * validity.stubborn * rng.gauss(0.0, 1.0) - 0.5 * task.hardness


def _chance(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-odds))
