"""What a recipe is: one named rewrite with the conditions under which it applies.

Knows the record, the order in which recipes of a composition take effect, and the boundary behind
which a recipe looks at a model. Does not know any single recipe (`registry` lists them), nor how a
composition becomes a file (`write`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from pike.recipes.capture.exclusive import at_most
from pike.recipes.framework.context import Capture, CompileSaving, RecipeContext, in_words


class RecipeStage(IntEnum):
    """When a recipe takes effect, in order."""

    REWRITE = 0
    """Another algorithm for the same values, as an edit of the captured graph."""
    PRECISION = 1
    """Another arithmetic inside, with casts at the border."""
    LAYOUT = 2
    """Another form of weights and data in memory, restored at the border."""
    LOWER = 3
    """Another way to run the same operators; at most one of a composition."""
    SETTING = 4
    """A setting that holds while the model is lowered (and, where it says so, while it runs)."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One rewrite.

    Attributes:
        name: short, in snake case; compositions are written `a + b + c`.
        summary: what it does, one line without a full stop, for the candidate's header.
        stage: when it takes effect.
        transform: a self-contained module-level function; its source is copied into candidates. It
            takes those of `model`, `args`, `kwargs` (one call's arguments) that it needs, and
            returns what runs instead. For `RecipeStage.SETTING`, a context manager function without
            arguments. It may also take `keep` (see `adapt`).
        declines: why it does not apply to a problem, empty when it does.
        edits_weights: whether the transform changes the module it is given, which is then a private
            copy.
        own_modules: whether the transform needs the modules of the original, so that nothing may
            have captured or changed it before.
        while_running: for a setting, whether it also holds while the model runs.
        recordable: for such a setting, whether what was recorded under it keeps it; switching takes
            microseconds in every call.
        records: whether calls replay what was recorded while the candidate was prepared.
        needs: names of which one must be in the composition too; empty for none.
        excludes: names that cannot be in the same composition.
        restores: whether it brings back arithmetic of the original. Such a recipe is added to a
            composition whose answers were far beyond their budget.
        foundation: whether every composition has it where it applies, because the others build on
            it; listed before all other recipes.
        prior_cpu: expected log speedup on a CPU, for trying promising compositions first.
        prior_cuda: expected log speedup on a GPU.
        suits: what to add to the expectation for a problem, by its structure.
        blamed_for: words in a failed candidate's diagnostics that point at this recipe.
        adapt: finds names for a problem to which the recipe applies. They are written into the
            candidate as the transform's last argument `keep`.
        capture: another way to capture models that cannot be captured without this recipe.
        saving: how many operators a compiler need not compile in compositions with this recipe.
        seconds: what the recipe should add to the time until a verdict, by the problem.
        tunes: whether it tunes kernels on the device, which few candidates may do at once.
    """

    name: str
    summary: str
    stage: RecipeStage
    transform: Callable[..., Any]
    declines: Callable[[RecipeContext], str]
    edits_weights: bool = False
    own_modules: bool = False
    while_running: bool = False
    recordable: bool = False
    records: bool = False
    needs: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()
    restores: bool = False
    foundation: bool = False
    prior_cpu: float = 0.0
    prior_cuda: float = 0.0
    suits: Callable[[RecipeContext], float] = lambda _problem: 0.0
    blamed_for: tuple[str, ...] = ()
    adapt: Callable[[RecipeContext], tuple[str, ...]] | None = None
    capture: Capture | None = None
    saving: CompileSaving | None = None
    seconds: Callable[[RecipeContext], float] = lambda _problem: 0.0
    tunes: bool = False

    def call(self, keep: tuple[str, ...] | None = None) -> str:
        """The transform's call in a candidate file.

        Args:
            keep: what `adapt` found; the transform's own default without it.
        """
        function = inspect.unwrap(self.transform)
        given = [name for name in inspect.signature(function).parameters if name != "keep"]
        given += [f"keep={keep!r}"] if keep is not None else []
        return f"{function.__name__}({', '.join(given)})"


@dataclass(frozen=True, slots=True)
class Look:
    """What a recipe found when it looked at a problem.

    Attributes:
        declined: why the recipe does not apply, empty where it does.
        gain: the expected log speedup, before anything is measured.
        keep: names for the transform's argument `keep`, None where it has none.
        seconds: what the recipe should add to the time until a verdict.
    """

    declined: str
    gain: float
    keep: tuple[str, ...] | None = None
    seconds: float = 0.0


def look(recipe: Recipe, problem: RecipeContext) -> Look:
    """Have a recipe look at a problem: whether it applies, what it promises, and what it adapts.

    Models are the user's and may be anything, so a recipe that raises, or takes too long, has
    declined.
    """
    prior = recipe.prior_cuda if problem.facts.is_cuda else recipe.prior_cpu
    try:
        declined, _ = problem.unsteady, problem.captured  # found out once, under limits of their own
        with at_most(problem.seconds):
            declined = declined or recipe.declines(problem)
            if declined:
                return Look(declined, prior)
            keep = recipe.adapt(problem) if recipe.adapt else None
            return Look("", prior + recipe.suits(problem), keep, recipe.seconds(problem))
    except Exception as error:
        return Look(f"recipe {recipe.name} cannot look at this model: {in_words(error)}", prior)
