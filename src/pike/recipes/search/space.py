"""Which composition to try next.

Knows the legal compositions of one problem, ranks them, and finds neighbours and repairs. Pure: the
same question always has the same answer. Does not know how a composition is written, nor what
verdicts say about recipes (`evidence`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from pike.core.step import Solution
from pike.core.verdict.evaluation import Evaluation
from pike.recipes.framework.recipe import RecipeStage
from pike.recipes.registry import BY_NAME
from pike.recipes.search.composition import Names, best_first, broken_rule, ordered, prior
from pike.recipes.search.costs import VERDICT_SECONDS, plain_seconds
from pike.recipes.search.evidence import Evidence, far_off, suspects

SAMPLES = 10
"""Samples of a round that start at different ranks (PIKE-B asks 10 at a time)."""

_DIVERSE = 24
"""This many of the most promising compositions are chosen for diversity as well."""


class Space:
    """The legal compositions of one problem, ranked."""

    def __init__(
        self, compositions: Iterable[Names], gain: Mapping[str, float], seconds: Mapping[str, float] | None = None
    ) -> None:
        """Rank the compositions: one by expected gain for its time, then two by expected gain.

        Args:
            compositions: the legal ones.
            gain: the expected log speedup of every recipe.
            seconds: what every recipe adds to the time until a verdict.
        """
        legal = set(compositions)
        self.gain = dict(gain)
        self.seconds = dict(seconds or {})
        self._usable = frozenset(name for names in legal for name in names)
        self._always = frozenset(name for name in self._usable if BY_NAME[name].foundation)
        head = best_first(legal, (self._soon, self._much, self._much), _DIVERSE)
        tail = sorted(legal.difference(head), key=lambda names: (-prior(names, gain), names))
        self.ranked: tuple[Names, ...] = (*head, *tail)
        self._without: dict[frozenset[str], Space] = {}

    def _much(self, names: Names) -> float:
        """The expected log speedup."""
        return prior(names, self.gain)

    def _soon(self, names: Names) -> float:
        """The expected log speedup, less by the share of time that a verdict takes longer."""
        return prior(names, self.gain) * VERDICT_SECONDS / plain_seconds(names, self.seconds)

    def without(self, names: frozenset[str]) -> Space:
        """The same without some recipes; this space where they are none, or nothing would be left."""
        if names not in self._without:
            kept = [one for one in self.ranked if names.isdisjoint(one)]
            is_less = 0 < len(kept) < len(self.ranked)
            self._without[names] = Space(kept, self.gain, self.seconds) if is_less else self
        return self._without[names]

    @property
    def decisive(self) -> frozenset[str]:
        """The usable recipes that change how much is computed, or in which arithmetic."""
        stages = (RecipeStage.REWRITE, RecipeStage.PRECISION)
        return frozenset(name for name in self._usable if BY_NAME[name].stage in stages)

    def ideas(self, count: int) -> tuple[Names, ...]:
        """The most promising compositions that also differ from each other."""
        return self.ranked[:count]

    def completed(self, names: Names) -> Names:
        """An earlier composition with the foundations of today; none remains none."""
        return ordered({*names, *self._always}) if names else ()

    def applies(self, names: Names) -> bool:
        """Whether a composition is legal and all its recipes apply, also one that is not ranked."""
        return bool(names) and self._always <= set(names) <= self._usable and not broken_rule(names)

    def exhausted(self, tried: set[Names]) -> bool:
        """Whether nothing is left of what is ranked."""
        return tried.issuperset(self.ranked)

    def next_ranked(self, tried: set[Names], round: int, sample: int) -> Names | None:
        """The composition of a sample's own place in the ranking, or the next untried one."""
        count = len(self.ranked)
        start = round * SAMPLES + sample
        slots = (self.ranked[(start + step) % count] for step in range(count))
        return next((names for names in slots if names not in tried), None)

    def next_to(self, seed: Names, tried: set[Names], evidence: Evidence) -> Names | None:
        """The best untried composition next to the seed, or of all others."""
        near = self.neighbours(seed).difference(tried)
        left = near or {names for names in self.ranked if names not in tried}
        return min(left, key=lambda names: (-evidence.expected(names), len(names), names), default=None)

    def neighbours(self, seed: Names) -> set[Names]:
        """Legal compositions one step away; removing a recipe also removes those that need it."""
        others = self._usable.difference(seed)
        added = {with_needs({*seed, name}) for name in others}
        removed = {with_needs(set(seed) - {name}) for name in seed}
        swapped = {with_needs({*seed, new} - {old}) for old in seed for new in others}
        return {names for names in added | removed | swapped if names != seed and self.applies(names)}

    def restored(self, known: Iterable[Solution], tried: set[Names]) -> Names | None:
        """A composition that failed by far, with the original's arithmetic brought back."""
        cures = [name for name in sorted(self._usable) if BY_NAME[name].restores]
        failing = [one.candidate.recipes for one in known if one.candidate.recipes and far_off(one.evaluation)]
        for names, cure in itertools.product(failing, cures):
            restored = with_needs({*names, cure} - BY_NAME[cure].excludes)
            if self.applies(restored) and restored not in tried:
                return restored
        return None

    def repair(self, failing: Names, verdict: Evaluation, tried: set[Names]) -> Names | None:
        """An untried composition without the likely culprit, or with another recipe for it."""
        for culprit in suspects(failing, verdict):
            rest = set(failing) - {culprit}
            alike = [name for name, recipe in BY_NAME.items() if recipe.stage is BY_NAME[culprit].stage]
            options = [with_needs({*rest, name}) for name in alike if name not in failing] + [with_needs(rest)]
            usable = [names for names in options if self.applies(names) and names not in tried and culprit not in names]
            if usable:
                return min(usable, key=lambda names: (-prior(names, self.gain), names))
        return None


def with_needs(names: set[str]) -> Names:
    """The names whose needs are met, in order; empty where the rest breaks a rule."""
    kept = {name for name in names if not BY_NAME[name].needs or not BY_NAME[name].needs.isdisjoint(names)}
    chosen = ordered(kept)
    return () if broken_rule(chosen) else chosen
