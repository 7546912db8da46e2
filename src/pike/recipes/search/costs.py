"""How long a composition takes until its verdict.

Knows what its recipes should take, and corrects that by what the verdicts of the run took. Does not
know what a composition promises (`space`, `evidence`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet

from pike.core.agent import Context
from pike.core.step import Solution
from pike.core.verdict.evaluation import Status
from pike.recipes.registry import BY_NAME
from pike.recipes.search.composition import Names

VERDICT_SECONDS = 8.0
"""Seconds until the verdict on a candidate that compiles nothing."""
_SLOW, _SLOW_PART = 0.25, 0.25
"""A verdict is slow that takes this share of the time left. Of those on their way, so many may be
slow before another one begins."""
_LEAST_PACE, _MOST_PACE = 0.3, 10.0
"""How far verdicts of the run may correct what is expected."""


def plain_seconds(names: Names, seconds: Mapping[str, float]) -> float:
    """What a composition should take, by what each of its recipes adds."""
    return VERDICT_SECONDS + sum(seconds.get(name, 0.0) for name in names)


class Costs:
    """The expected seconds of compositions, after some were judged.

    Args:
        seconds: what each recipe should add to the time until a verdict.
        known: candidates with their verdicts. Compositions that were timed, or timed out, tell the
            pace; others were refused too early.
    """

    def __init__(self, seconds: Mapping[str, float], known: Iterable[Solution] = ()) -> None:
        self._seconds = seconds
        tell = (Status.VALID, Status.TIMEOUT)
        judged = [one for one in known if one.candidate.recipes and one.evaluation.status in tell]
        expected = sum(plain_seconds(one.candidate.recipes, seconds) for one in judged)
        spent = sum(one.evaluation.own_seconds for one in judged)
        self._pace = min(max(spent / expected, _LEAST_PACE), _MOST_PACE) if spent else 1.0

    def expected(self, names: Names) -> float:
        """Seconds until the verdict on a composition."""
        return self._pace * plain_seconds(names, self._seconds)

    def late(
        self, context: Context, on_their_way: Collection[Names], untried: AbstractSet[Names]
    ) -> AbstractSet[Names]:
        """The untried compositions that should not begin now.

        A verdict must come before the search is over, except that the quickest may always be the
        first. Only a part of what is on its way may be slow or tune kernels on the device.
        """
        left = math.inf if context.seconds_left is None else context.seconds_left
        over = {names for names in untried if self.expected(names) > left}
        if sum(self._is_slow(names, left) for names in on_their_way) > _SLOW_PART * len(on_their_way):
            slow = over | {names for names in untried if self._is_slow(names, left)}
            over = slow if slow != untried else over
        begun = bool(on_their_way) or any(one.evaluation.valid for one in context.known)
        return over if begun or over != untried else untried - {min(sorted(untried), key=self.expected, default=())}

    def _is_slow(self, names: Names, left: float) -> bool:
        return self.expected(names) > _SLOW * left or any(BY_NAME[name].tunes for name in names)
