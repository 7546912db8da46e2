"""How far rewrites should go: small steps after a gain, another approach on a plateau.

Knows the best time so far and how many samples ended since it fell. Does not know why it fell.
"""

import math

from pike.core.step import ORIGINAL, Scope
from pike.search.options.prompting import Adaptive, AnyScope

GAIN = 0.99
"""A new best is a gain if it takes at most this part of the old time; less is noise."""


class SearchProgress:
    """The gains of a search, as far as `scope` needs them."""

    def __init__(self, options: AnyScope | Adaptive) -> None:
        self._options = options
        self._best_ms = math.inf
        self._since = 0

    def take(self, samples: int, best_ms: float) -> None:
        """Note that `samples` ended, and the best time among them."""
        if best_ms <= GAIN * self._best_ms and math.isfinite(best_ms):
            self._best_ms, self._since = best_ms, 0
        else:
            self._since += samples

    def scope_from(self, seed: str) -> Scope:
        """How far to go from `seed`; from the original model, as far as the model likes."""
        if isinstance(self._options, AnyScope) or seed == ORIGINAL:
            return Scope.ANY
        return Scope.REWRITE if self._since >= self._options.plateau else Scope.TWEAK
