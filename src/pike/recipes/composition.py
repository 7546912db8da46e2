"""Which recipes go together, in which order, and which apply to a problem.

Knows the rules that a composition must keep and enumerates the legal ones, most promising first. Does not know how
they are written (`write`) or chosen during a search (`agent`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from pike.core.config import nearest
from pike.core.errors import UserError
from pike.recipes.recipe import Problem, Stage
from pike.recipes.registry import BY_NAME, RECIPES

Names = tuple[str, ...]
"""A composition as the names of its recipes, in order."""

_SIMILAR = 0.25
"""How much of its score a composition loses for resembling one that stands before it."""


def ordered(names: Iterable[str]) -> Names:
    """The names in the order in which their recipes take effect, each once.

    Raises:
        UserError: a name is unknown.
    """
    wanted = set(names)
    for name in sorted(wanted):
        if name not in BY_NAME:
            raise UserError(f"There is no recipe '{name}'{nearest(name, BY_NAME)}")
    ranks = {recipe.name: (recipe.stage, index) for index, recipe in enumerate(RECIPES)}
    return tuple(sorted(wanted, key=lambda name: ranks[name]))


def broken_rule(names: Names) -> str:
    """Why these recipes do not go together, empty when they do."""
    chosen = [BY_NAME[name] for name in names]
    for recipe in chosen:
        if recipe.needs and recipe.needs.isdisjoint(names):
            return f"{recipe.name} needs one of {', '.join(sorted(recipe.needs))}"
        enemies = recipe.excludes.intersection(names)
        if enemies:
            return f"{recipe.name} and {sorted(enemies)[0]} exclude each other"
    before = next((recipe.name for recipe in chosen if recipe.stage < Stage.LOWER), None)
    alone = next((recipe.name for recipe in chosen if recipe.own_modules), None)
    if before and alone:
        return f"{alone} needs the model's own modules, which {before} captures"
    for stage, most in ((Stage.LOWER, 1), (Stage.PRECISION, 1)):
        inside = [recipe.name for recipe in chosen if recipe.stage is stage]
        if len(inside) > most:
            return f"{inside[0]} and {inside[1]} exclude each other"
    return "" if chosen else "a composition has at least one recipe"


def decline_reasons(problem: Problem) -> dict[str, str]:
    """For every recipe, why it does not apply to the problem; empty where it does."""
    if problem.unsteady:
        return {recipe.name: problem.unsteady for recipe in RECIPES}
    return {recipe.name: recipe.declines(problem) for recipe in RECIPES}


def adaptations(problem: Problem, applicable: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What recipes that apply to the problem want written into a candidate, by their names."""
    adapting = ((name, BY_NAME[name].adapt) for name in applicable)
    return {name: adapt(problem) for name, adapt in adapting if adapt is not None}


MANY_REWRITES = 4
"""With more rewrites than this, only compositions with all, all but one, one or none of them are enumerated."""


def legal_compositions(applicable: Iterable[str]) -> list[Names]:
    """Every legal composition of these recipes; where many rewrites apply, those with few or most of them."""
    recipes = [BY_NAME[name] for name in ordered(applicable)]
    always = tuple(recipe.name for recipe in recipes if recipe.foundation)
    others = [recipe for recipe in recipes if not recipe.foundation]
    by_stage = {stage: [recipe.name for recipe in others if recipe.stage is stage] for stage in Stage}
    choices: list[list[Names]] = []
    for stage, names in by_stage.items():
        most = 1 if stage in (Stage.LOWER, Stage.PRECISION) else len(names)
        sizes = [size for size in range(most + 1) if _is_enumerated(size, len(names), stage)]
        choices.append([subset for size in sizes for subset in itertools.combinations(names, size)])
    combined = (tuple(itertools.chain(always, *parts)) for parts in itertools.product(*choices))
    return [names for names in combined if names and not broken_rule(names)]


def _is_enumerated(size: int, count: int, stage: Stage) -> bool:
    return stage is not Stage.REWRITE or count <= MANY_REWRITES or size <= 1 or size >= count - 1


def gains(problem: Problem) -> dict[str, float]:
    """The expected log speedup of every recipe on a problem, before anything is measured."""
    return {recipe.name: recipe.gain(problem) for recipe in RECIPES}


def prior(names: Names, gain: Mapping[str, float]) -> float:
    """The expected log speedup of a composition."""
    return sum(gain[name] for name in names)


def best_first(compositions: Iterable[Names], gain: Mapping[str, float], count: int) -> list[Names]:
    """The most promising compositions, the ones that resemble those before them put back.

    Args:
        compositions: what to choose from.
        gain: what `gains` gives.
        count: how many to return.
    """
    left = sorted(compositions, key=lambda names: (-prior(names, gain), len(names), names))
    chosen: list[Names] = []
    while left and len(chosen) < count:
        pick = max(left, key=lambda names: prior(names, gain) - _SIMILAR * _resemblance(names, chosen))
        left.remove(pick)
        chosen.append(pick)
    return chosen


def _resemblance(names: Names, chosen: list[Names]) -> float:
    """How many of the chosen share most of their recipes with `names`, nearer ones counting more."""
    mine = set(names)
    shares = (len(mine & set(other)) / len(mine | set(other)) for other in chosen)
    return sum(share**2 for share in shares)
