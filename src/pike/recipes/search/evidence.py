"""What the verdicts of a run say about recipes: what each brings, and which break the model.

Knows compositions with their verdicts. Pure. Does not know which compositions are legal or what to
try next (`space`).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import torch

from pike.core.step import Solution
from pike.core.verdict.evaluation import Evaluation, Status
from pike.core.verdict.profile import Profile
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.registry import BY_NAME
from pike.recipes.search.composition import Names


def _stages(names: str) -> tuple[RecipeStage, ...]:
    return tuple(RecipeStage[name.upper()] for name in names.split())


_USUAL_SUSPECTS = _stages("lower setting rewrite precision layout")
"""The stages to suspect where the diagnostics name no recipe, the likeliest first."""

_SUSPECTS = {
    Status.WRONG_OUTPUT: _stages("precision rewrite setting lower layout"),
    Status.BAD_CONTRACT: _stages("precision layout lower rewrite setting"),
    Status.RESOURCE_LIMIT: _stages("lower setting precision rewrite layout"),
}
"""The same for verdicts that point at other stages."""

_SAYS_NOTHING = frozenset({Status.INFRA_ERROR, Status.UNTRUSTED_TIMING})
"""Verdicts that say nothing about the candidate."""

_PRIOR_SPREAD = 0.3
"""Standard deviation of a recipe's log speedup around its prior."""
_INTERACTION = 0.1
"""Standard deviation of a composition's log speedup around the sum of its recipes', timing
included."""


class Evidence:
    """The expected gain of compositions, after some were judged.

    Each recipe multiplies the speed by a factor of its own: a linear model of log speedups with the
    recipes' priors (Bayesian ridge regression). A refusal speaks against its first suspect, every
    valid verdict for all.
    """

    def __init__(self, gain: Mapping[str, float], known: Iterable[Solution], on_gpu: bool = False) -> None:
        """Learn from verdicts.

        Args:
            gain: the expected log speedup of every recipe before anything was judged.
            known: candidates with their verdicts; those that are no compositions are ignored.
            on_gpu: the speeds of candidates are compared by their own times (`Solution.slowness`).
        """
        judged = [
            (solution.candidate.recipes, solution.evaluation)
            for solution in known
            if solution.candidate.recipes and solution.evaluation.status not in _SAYS_NOTHING
        ]
        timed = [(names, verdict.timing) for names, verdict in judged if verdict.timing]
        if on_gpu and timed:
            original_ms = statistics.median(timing.reference_ms for _, timing in timed)
            measured = [(names, original_ms / timing.candidate_ms) for names, timing in timed]
        else:
            measured = [(names, timing.speedup) for names, timing in timed]
        self._passed = Counter(name for names, _ in measured for name in names)
        self._blamed = Counter(suspects(names, verdict)[0] for names, verdict in judged if not verdict.valid)
        self._gain = {**gain, **_fitted(gain, measured)}

    def expected(self, names: Names) -> float:
        """The expected log speedup of a composition, less where it is likely to be refused."""
        return sum(self._gain[name] + self._trust(name) for name in names)

    def _trust(self, name: str) -> float:
        """The log of how often a recipe was not to blame."""
        passed = self._passed[name]
        return math.log((passed + 1) / (passed + self._blamed[name] + 1))


def _fitted(gain: Mapping[str, float], measured: list[tuple[Names, float]]) -> dict[str, float]:
    """The log speedups of the recipes that were measured, all together."""
    recipes = sorted({name for names, _ in measured for name in names})
    if not recipes:
        return {}
    uses = torch.tensor([[float(name in names) for name in recipes] for names, _ in measured], dtype=torch.float64)
    prior = torch.tensor([gain[name] for name in recipes], dtype=torch.float64)
    surprise = torch.tensor([math.log(speedup) for _, speedup in measured], dtype=torch.float64) - uses @ prior
    precision = uses.T @ uses / _INTERACTION**2 + torch.eye(len(recipes), dtype=torch.float64) / _PRIOR_SPREAD**2
    change = torch.linalg.solve(precision, uses.T @ surprise / _INTERACTION**2)
    return dict(zip(recipes, (prior + change).tolist(), strict=True))


def broken(known: Iterable[Solution]) -> frozenset[str]:
    """Recipes that lower, of which nothing passed, and which the diagnostics of a failure speak of.

    A failure also speaks of recipes that were not in it: where one cannot record a CUDA graph, the
    next one cannot either.
    """
    verdicts = [(set(one.candidate.recipes), one.evaluation) for one in known if one.candidate.recipes]
    passed = {name for names, verdict in verdicts if verdict.valid for name in names}
    texts = [
        (names, f"{verdict.reason}\n{verdict.log}")
        for names, verdict in verdicts
        if verdict.status in (Status.BUILD_ERROR, Status.LOAD_ERROR, Status.RUNTIME_ERROR)
    ]
    named = [{name for name, recipe in BY_NAME.items() if _names(text, recipe)} for _, text in texts]
    return frozenset(
        name for found, (names, _) in zip(named, texts, strict=True) if found & names for name in found - passed
    )


def _names(text: str, recipe: Recipe) -> bool:
    return recipe.stage is RecipeStage.LOWER and any(word in text for word in recipe.blamed_for)


CLOSE = 1.1
"""A time within this multiple of the floor is as good as the floor."""


_HELD_IN_CACHES = 512 << 20
"""More bytes than caches hold."""


def floor_ms(profile: Profile | None) -> float:
    """What the reference's work takes at the device's best; 0 where that is not known.

    Bytes that a cache may hold do not count, and numbers may be stored in half the bytes.
    """
    if profile is None or profile.ceilings is None:
        return 0.0
    ceilings, moved = profile.ceilings, max(0, profile.least_bytes // 2 - _HELD_IN_CACHES)
    memory = moved / ceilings.bytes_per_second if ceilings.bytes_per_second else 0.0
    arithmetic = profile.operations / ceilings.operations_per_second if ceilings.operations_per_second else 0.0
    return 1e3 * max(memory, arithmetic)


def at_the_floor(known: Iterable[Solution], decisive: AbstractSet[str]) -> str:
    """Why nothing worth the time is left to gain, empty while something may be.

    Args:
        known: candidates with their verdicts; a profile of one of them tells the floor.
        decisive: recipes that might lower the floor itself, so that each must have been tried.
    """
    judged = list(known)
    floor = max((floor_ms(one.evaluation.profile) for one in judged), default=0.0)
    best_ms = min((one.evaluation.candidate_ms for one in judged if one.evaluation.candidate_ms), default=math.inf)
    tried = {name for one in judged for name in one.candidate.recipes}
    if best_ms > CLOSE * floor or not decisive <= tried:
        return ""
    return (
        f"the best takes {best_ms:.3g} ms, and the model's arithmetic and memory need {floor:.3g} ms on this "
        "device: nothing is left to gain"
    )


FAR = 8.0
"""From this multiple of its budget, an error is more than rounding in the same arithmetic."""


def far_off(verdict: Evaluation) -> bool:
    """Whether answers were so far off that they come from another arithmetic, or are wrong."""
    error = verdict.error
    return verdict.status is Status.WRONG_OUTPUT and error is not None and error.rms > FAR * error.budget_rms


def suspects(failing: Names, verdict: Evaluation) -> Names:
    """The recipes of a failed composition, the most likely culprit first."""
    text = f"{verdict.reason}\n{verdict.log}"
    stages = _SUSPECTS.get(verdict.status, _USUAL_SUSPECTS)

    def innocence(recipe: Recipe) -> tuple[int, int]:
        named = sum(text.count(word) > 0 for word in recipe.blamed_for)
        return -named, stages.index(recipe.stage)

    return tuple(sorted(failing, key=lambda name: innocence(BY_NAME[name])))
