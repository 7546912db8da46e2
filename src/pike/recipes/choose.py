"""Which composition to try next.

Knows the legal compositions of one problem, ranks them, and finds neighbours and repairs. Pure: the same question
always has the same answer, and samples of one round that ask at the same time get different ones. Does not know how a
composition is written.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

from pike.core.evaluation import Evaluation, Status
from pike.recipes.composition import Names, best_first, broken_rule, ordered, prior
from pike.recipes.recipe import Recipe, Stage
from pike.recipes.registry import BY_NAME

SAMPLES = 10
"""Samples of a round that are kept apart (PIKE-B asks 10 at a time)."""

_DIVERSE = 24
"""How many of the most promising compositions are chosen for being different as well."""

_SUSPECTS: dict[Status, tuple[Stage, ...]] = {
    Status.WRONG_OUTPUT: (Stage.PRECISION, Stage.REWRITE, Stage.SETTING, Stage.LOWER, Stage.LAYOUT),
    Status.BAD_CONTRACT: (Stage.PRECISION, Stage.LAYOUT, Stage.LOWER, Stage.REWRITE, Stage.SETTING),
    Status.TIMEOUT: (Stage.LOWER, Stage.SETTING, Stage.REWRITE, Stage.PRECISION, Stage.LAYOUT),
    Status.RESOURCE_LIMIT: (Stage.LOWER, Stage.SETTING, Stage.PRECISION, Stage.REWRITE, Stage.LAYOUT),
}
"""Whom to suspect first by verdict, where the diagnostics name nobody."""

_USUAL_SUSPECTS = (Stage.LOWER, Stage.SETTING, Stage.REWRITE, Stage.PRECISION, Stage.LAYOUT)


class Space:
    """The legal compositions of one problem, ranked."""

    def __init__(self, compositions: Iterable[Names], gain: Mapping[str, float]) -> None:
        """Rank the compositions by the expected gains of their recipes."""
        legal = set(compositions)
        head = best_first(legal, gain, _DIVERSE)
        tail = sorted(legal.difference(head), key=lambda names: (-prior(names, gain), names))
        self.ranked: tuple[Names, ...] = (*head, *tail)
        self._rank = {names: rank for rank, names in enumerate(self.ranked)}

    def ideas(self, count: int) -> tuple[Names, ...]:
        """The most promising compositions that also differ from each other."""
        return self.ranked[:count]

    def exhausted(self, tried: set[Names]) -> bool:
        """Whether nothing is left that was not tried."""
        return tried.issuperset(self.ranked)

    def next_ranked(self, tried: set[Names], round: int, sample: int) -> Names | None:
        """The composition of a sample's own place in the ranking, or the next untried one after it."""
        count = len(self.ranked)
        start = round * SAMPLES + sample
        places = (self.ranked[(start + step) % count] for step in range(count))
        return next((names for names in places if names not in tried), None)

    def next_to(self, seed: Names, tried: set[Names], round: int, sample: int) -> Names | None:
        """An untried composition that differs from the seed by one recipe added, removed or swapped.

        Every sample prefers a share of all compositions that is its own, so that samples do not collide.
        """
        near = sorted(self.neighbours(seed).difference(tried), key=self._rank.__getitem__)
        own = [names for names in near if _share(names) == sample % SAMPLES]
        if own:
            return own[0]
        distant = (names for names in self.ranked if names not in tried and _share(names) == sample % SAMPLES)
        return next(distant, None) or self.next_ranked(tried, round, sample)

    def neighbours(self, seed: Names) -> set[Names]:
        """Legal compositions one step away; what a removal leaves without its need goes with it."""
        legal = self._rank
        recipes = {name for names in self.ranked for name in names}
        added = {with_needs({*seed, name}) for name in recipes.difference(seed)}
        removed = {with_needs(set(seed) - {name}) for name in seed}
        swapped = {with_needs({*seed, new} - {old}) for old in seed for new in recipes.difference(seed)}
        return {names for names in added | removed | swapped if names in legal and names != seed}

    def repair(self, failing: Names, verdict: Evaluation, tried: set[Names]) -> Names | None:
        """An untried composition without the recipe that is most likely to blame, or with another in its place."""
        for culprit in suspects(failing, verdict):
            rest = set(failing) - {culprit}
            alike = [name for name, recipe in BY_NAME.items() if recipe.stage is BY_NAME[culprit].stage]
            options = [with_needs({*rest, name}) for name in alike if name not in failing] + [with_needs(rest)]
            usable = [names for names in options if names in self._rank and names not in tried and culprit not in names]
            if usable:
                return min(usable, key=self._rank.__getitem__)
        return None


def suspects(failing: Names, verdict: Evaluation) -> Names:
    """The recipes of a failed composition, the most likely culprit first."""
    text = f"{verdict.reason}\n{verdict.log}"
    stages = _SUSPECTS.get(verdict.status, _USUAL_SUSPECTS)

    def innocence(recipe: Recipe) -> tuple[int, int]:
        named = sum(text.count(word) > 0 for word in recipe.blamed_for)
        return -named, stages.index(recipe.stage)

    return tuple(sorted(failing, key=lambda name: innocence(BY_NAME[name])))


def with_needs(names: set[str]) -> Names:
    """The names without those whose needs are not met, in order; empty where the rest breaks a rule."""
    kept = {name for name in names if not BY_NAME[name].needs or not BY_NAME[name].needs.isdisjoint(names)}
    chosen = ordered(kept)
    return () if broken_rule(chosen) else chosen


def _share(names: Names) -> int:
    """A number below `SAMPLES` that depends on the composition only."""
    return zlib.crc32(" + ".join(names).encode()) % SAMPLES
