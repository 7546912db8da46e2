"""What a model does to a program: tweak it, rewrite it, cross it with another, repair it.

Knows programs as a gain, a plateau and defects, and how one is drawn from another. Does not know steps, roles or
money (`world`). The landscape is rugged by plateaus: an approach can be tweaked up to its own plateau and no further,
each helpful tweak going a part of the way that is left; only another approach has another plateau.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from pike.search.simulate.parameters import Model, Parameters
from pike.search.simulate.terrain import Landscape, plateau

TWEAK = 0.6
"""Boldness of the largest tweak; a rewrite has 1."""
SLOWEST = -math.log(1000.0)
"""No program is slower than this: a judge's time limit would end it, and a chain that repairs its own failures for
hundreds of steps would lose more than numbers can say."""
CROSSING = 0.6
"""Boldness of taking over an approach that is shown."""


@dataclass(slots=True)
class Program:
    """One program.

    Attributes:
        gain: logarithm of its true speedup, what it would be if it fails.
        plateau: how far its approach can go.
        compiles: whether it does.
        right: whether its outputs are.
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
class Wish:
    """What a step asks for beside its seed.

    Attributes:
        plateau: of the idea to carry out, None without one.
        shown: the best valid inspiration, None if none is shown.
        rewrite_share: chance of another approach.
        planned: whether a plan is carried out.
        model: who writes.
    """

    plateau: float | None
    shown: Program | None
    rewrite_share: float
    planned: bool
    model: Model


def write(rng: random.Random, parameters: Parameters, place: Landscape, seed: Program, wish: Wish) -> Program:
    """A new program from a seed; the original has nothing to tweak, so it is always rewritten."""
    writing = parameters.writing
    share, stride, size = wish.rewrite_share, writing.stride * wish.model.insight, rng.random()
    if wish.shown is not None:
        share, stride = share * writing.caution, stride * writing.caution
    if wish.planned:
        stride *= writing.planned
    if wish.plateau is not None or not seed.plateau or rng.random() < share:
        program = _rewritten(rng, parameters, place, seed, wish)
    elif wish.shown is not None and rng.random() < writing.cross:
        program = _crossed(rng, parameters, seed, wish.shown)
    else:
        program = _tweaked(rng, parameters, seed, size, stride)
    program.boldness *= (writing.caution if wish.shown is not None else 1.0) * (1.0 - writing.surety * wish.planned)
    _check(rng, parameters, place, program, wish.model)
    return program


def repair(
    rng: random.Random, parameters: Parameters, failing: Program, attempt: int, *, model: Model, planned: bool
) -> Program:
    """The failing program after one attempt: the foremost defect is found first, some of the gain is given up."""
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
    return Program(gain, failing.plateau, compiles, right, failing.boldness, failing.stubborn)


def _rewritten(rng: random.Random, parameters: Parameters, place: Landscape, seed: Program, wish: Wish) -> Program:
    writing, terrain = parameters.writing, parameters.terrain
    if wish.plateau is not None:
        top = wish.plateau
    elif rng.random() < terrain.habit:
        top = place.obvious
    else:
        top = plateau(rng, place.ceiling, terrain.approach_shape)
    start = writing.keep * max(0.0, min(seed.gain, top))
    reach = min(1.0, 2.0 * writing.first * rng.random() * wish.model.insight)
    return Program(start + (top - start) * reach, top, boldness=1.0)


def _crossed(rng: random.Random, parameters: Parameters, seed: Program, shown: Program) -> Program:
    """The better of two approaches, from where the better program stands, less what is lost on the way."""
    gain = max(seed.gain, shown.gain) - parameters.writing.slip * rng.expovariate(1.0)
    return Program(gain, max(seed.plateau, shown.plateau), boldness=CROSSING)


def _tweaked(rng: random.Random, parameters: Parameters, seed: Program, size: float, stride: float) -> Program:
    writing, gain, draw = parameters.writing, seed.gain, rng.random()
    if draw < writing.improve:
        gain += max(0.0, seed.plateau - gain) * min(1.0, 2.0 * size * stride)
    elif draw < writing.improve + writing.hurt:
        gain -= writing.slip * 2.0 * size * rng.expovariate(1.0)
    return Program(max(SLOWEST, gain), seed.plateau, boldness=TWEAK * size)


def _check(rng: random.Random, parameters: Parameters, place: Landscape, program: Program, model: Model) -> None:
    """Draw the defects of a new program."""
    validity = parameters.validity
    ease = place.hardness + model.valid_odds - validity.boldness * program.boldness
    program.compiles = rng.random() < _chance(validity.compile_odds + ease)
    program.right = rng.random() < _chance(validity.right_odds + ease)
    if not program.valid:
        program.stubborn = program.boldness * validity.stubborn * rng.gauss(0.0, 1.0) - 0.5 * place.hardness


def _chance(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-odds))
