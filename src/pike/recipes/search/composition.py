"""Which recipes go together, and in which order.

Knows the rules that a composition must keep and enumerates the legal ones, most promising first.
Does not know how they are written (`write`) or chosen during a search (`agent`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from pike.core.errors import UserError
from pike.core.settings.merging import nearest
from pike.recipes.framework.recipe import RecipeStage
from pike.recipes.registry import BY_NAME, RECIPES

Names = tuple[str, ...]
"""A composition as the names of its recipes, in order."""

Worth = Callable[[Names], float]
"""How promising a composition is, as a log speedup."""

_SIMILAR = 0.25
"""The share of its score that a composition loses for resembling one before it."""


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
    before = next((recipe.name for recipe in chosen if recipe.stage < RecipeStage.LOWER), None)
    alone = next((recipe.name for recipe in chosen if recipe.own_modules), None)
    if before and alone:
        return f"{alone} needs the model's own modules, which {before} captures"
    for stage, most in ((RecipeStage.LOWER, 1), (RecipeStage.PRECISION, 1)):
        inside = [recipe.name for recipe in chosen if recipe.stage is stage]
        if len(inside) > most:
            return f"{inside[0]} and {inside[1]} exclude each other"
    return "" if chosen else "a composition has at least one recipe"


MANY_REWRITES = 4
"""With more rewrites, only compositions with all, all but one, one or none of them are enumerated.
"""


def legal_compositions(applicable: Iterable[str]) -> list[Names]:
    """Every legal composition; where many rewrites apply, those with few or most of them."""
    recipes = [BY_NAME[name] for name in ordered(applicable)]
    always = tuple(recipe.name for recipe in recipes if recipe.foundation)
    others = [recipe for recipe in recipes if not recipe.foundation]
    by_stage = {stage: [recipe.name for recipe in others if recipe.stage is stage] for stage in RecipeStage}
    choices: list[list[Names]] = []
    for stage, names in by_stage.items():
        most = 1 if stage in (RecipeStage.LOWER, RecipeStage.PRECISION) else len(names)
        sizes = [size for size in range(most + 1) if _is_enumerated(size, len(names), stage)]
        choices.append([subset for size in sizes for subset in itertools.combinations(names, size)])
    combined = (tuple(itertools.chain(always, *parts)) for parts in itertools.product(*choices))
    legal = [names for names in combined if names and not broken_rule(names)]
    return [ordered(names) for names in legal] if always else legal


def _is_enumerated(size: int, count: int, stage: RecipeStage) -> bool:
    return stage is not RecipeStage.REWRITE or count <= MANY_REWRITES or size <= 1 or size >= count - 1


def prior(names: Names, gain: Mapping[str, float]) -> float:
    """The expected log speedup of a composition."""
    return sum(gain[name] for name in names)


def best_first(compositions: Iterable[Names], worths: Sequence[Worth], count: int) -> list[Names]:
    """The most promising compositions; those that resemble earlier ones come later.

    Args:
        compositions: what to choose from.
        worths: what makes a composition promising; they take turns.
        count: how many to return.
    """
    left = sorted(compositions, key=lambda names: (-worths[0](names), len(names), names))
    chosen: list[Names] = []
    for worth in itertools.islice(itertools.cycle(worths), min(count, len(left))):
        pick = max(left, key=lambda names: worth(names) - _SIMILAR * _resemblance(names, chosen))
        left.remove(pick)
        chosen.append(pick)
    return chosen


def _resemblance(names: Names, chosen: list[Names]) -> float:
    """How many of the chosen share most of their recipes with `names`, weighted by nearness."""
    mine = set(names)
    shares = (len(mine & set(other)) / len(mine | set(other)) for other in chosen)
    return sum(share**2 for share in shares)
