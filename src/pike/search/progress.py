"""How far rewrites should go: small steps after a gain, another approach on a plateau.

Knows the best time so far and how many samples ended since it fell. Does not know why.
"""

from __future__ import annotations

import math

from pike.core.step import ORIGINAL, Scope
from pike.search.choices import ScopeKind
from pike.search.options import Options

GAIN = 0.99
"""A new best counts as a gain where it takes at most this part of the old one's time; less is noise of the clock."""


class Progress:
    """The search's gains, as far as `scope` needs them."""

    def __init__(self, options: Options) -> None:
        self._adaptive = options.scope is ScopeKind.ADAPTIVE
        self._plateau = options.plateau
        self._best_ms = math.inf
        self._since = 0

    def take(self, samples: int, best_ms: float) -> None:
        """So many samples ended, and the best time of what they brought is this."""
        if best_ms <= GAIN * self._best_ms and math.isfinite(best_ms):
            self._best_ms, self._since = best_ms, 0
        else:
            self._since += samples

    def scope_from(self, seed: str) -> Scope:
        """How far to go from `seed`; from the original model, as the model asked likes."""
        if not self._adaptive or seed == ORIGINAL:
            return Scope.ANY
        return Scope.REWRITE if self._since >= self._plateau else Scope.TWEAK
