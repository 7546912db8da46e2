"""What the verdicts of a run say about recipes: what each seems to bring, and which seem to break the model.

Knows compositions with their verdicts. Pure. Does not know which compositions are legal or what to try next (`choose`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import torch

from pike.core.evaluation import Evaluation, Status
from pike.core.step import Solution
from pike.recipes.composition import Names
from pike.recipes.recipe import Recipe, Stage
from pike.recipes.registry import BY_NAME

_SUSPECTS: dict[Status, tuple[Stage, ...]] = {
    Status.WRONG_OUTPUT: (Stage.PRECISION, Stage.REWRITE, Stage.SETTING, Stage.LOWER, Stage.LAYOUT),
    Status.BAD_CONTRACT: (Stage.PRECISION, Stage.LAYOUT, Stage.LOWER, Stage.REWRITE, Stage.SETTING),
    Status.TIMEOUT: (Stage.LOWER, Stage.SETTING, Stage.REWRITE, Stage.PRECISION, Stage.LAYOUT),
    Status.RESOURCE_LIMIT: (Stage.LOWER, Stage.SETTING, Stage.PRECISION, Stage.REWRITE, Stage.LAYOUT),
}
"""Whom to suspect first by verdict, where the diagnostics name nobody."""

_USUAL_SUSPECTS = (Stage.LOWER, Stage.SETTING, Stage.REWRITE, Stage.PRECISION, Stage.LAYOUT)

_SAYS_NOTHING = frozenset({Status.INFRA_ERROR, Status.UNTRUSTED_TIMING})
"""Verdicts that are the machine's doing."""

_PRIOR_SPREAD = 0.3
"""How far a recipe's log speedup lies from its prior, as a standard deviation."""
_INTERACTION = 0.1
"""How far a composition's log speedup lies from the sum of its recipes', noise of timing included."""


class Evidence:
    """The expected gain of compositions, after some were judged.

    Each recipe is taken to multiply the speed by a factor of its own: a linear model of log speedups with the priors of
    the recipes (Bayesian ridge regression). A refusal speaks against its first suspect, every valid verdict for all.
    """

    def __init__(self, gain: Mapping[str, float], known: Iterable[Solution]) -> None:
        """Learn from verdicts.

        Args:
            gain: the expected log speedup of every recipe before anything was judged.
            known: candidates with their verdicts; those that are no compositions are ignored.
        """
        judged = [
            (solution.candidate.recipes, solution.evaluation)
            for solution in known
            if solution.candidate.recipes and solution.evaluation.status not in _SAYS_NOTHING
        ]
        measured = [(names, verdict.speedup) for names, verdict in judged if verdict.speedup]
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


FAR = 8.0
"""Times the budget from which an error is no matter of rounding in the same arithmetic."""


def far_off(verdict: Evaluation) -> bool:
    """Whether answers were so far beyond their budget that they were computed in another arithmetic, or wrongly."""
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
