"""Which solution a new sample starts from.

Knows the kinds of selection and their dials. Does not know when samples begin (`pacing`).
"""

from dataclasses import dataclass
from typing import ClassVar

from pike.core.errors import UserError
from pike.search.options.ranges import Choice, at_least, between_0_and

_WHERE = "strategy.selection"


class Seeding(Choice):
    """Where the first samples start when solutions were admitted from outside."""

    ORIGINAL = "original"
    """Published: at the original model; admitted ones compete for the seed slots of round 1."""
    SEEDS = "seeds"
    """At the fastest admitted ones; the original fills one slot while there are fewer than `k`."""
    BOTH = "both"
    """At the `k` - 1 fastest admitted ones (at least one) and always at the original."""


class Rest(Choice):
    """Where a seed comes from that is drawn neither by exploration nor by exploitation."""

    ALL = "all"
    """Published: any program of any island, each as likely."""
    ISLAND = "island"
    """OpenEvolve 0.4: a program of the island whose turn it is, in proportion to fitness."""


@dataclass(frozen=True, slots=True)
class TopK:
    """The `k` fastest in equal shares; the original fills a slot while there are fewer (PIKE-B).

    Attributes:
        k: seeds of a round.
        distinct: seeds that may have the same parent, 0 for any number (published). Each child of
            the original model is a branch of its own. Empty slots are shared as if there were fewer
            seeds.
        seeding: where the first samples start.
    """

    kind: ClassVar[str] = "top-k"

    k: int = 4
    distinct: int = 0
    seeding: Seeding = Seeding.BOTH

    def __post_init__(self) -> None:
        at_least(_WHERE, self, k=1, distinct=0)


@dataclass(frozen=True, slots=True)
class Weighted:
    """One of the `k` fastest, drawn in proportion to its speed (METR)."""

    kind: ClassVar[str] = "weighted"

    k: int = 8
    seeding: Seeding = Seeding.BOTH

    def __post_init__(self) -> None:
        at_least(_WHERE, self, k=1)


@dataclass(frozen=True, slots=True)
class ByRatio:
    """What the library draws: by exploration, by exploitation or else by chance (PIKE-O).

    Attributes:
        exploration: the part drawn from all that the library holds; with islands, from one island.
        exploitation: the part drawn from the elites. The rest of 1 is left to chance: any solution
            or the original model.
        elites: how many of the fastest are elites; 0 with islands, which have an archive of elites.
        rest: with islands, where the rest is drawn from.
    """

    kind: ClassVar[str] = "ratio"

    exploration: float = 0.2
    exploitation: float = 0.7
    elites: int = 0
    rest: Rest = Rest.ALL

    def __post_init__(self) -> None:
        at_least(_WHERE, self, elites=0)
        between_0_and(_WHERE, self, exploration=1.0, exploitation=1.0)
        if self.exploration + self.exploitation > 1.0 + 1e-9:
            raise UserError(
                f"Settings '{_WHERE}.exploration' ({self.exploration}) and '{_WHERE}.exploitation' "
                f"({self.exploitation}) must not exceed 1 together"
            )


@dataclass(frozen=True, slots=True)
class EpsilonGreedy:
    """The best node that may still be expanded, or sometimes any leaf (STARK).

    Attributes:
        epsilon: the probability of taking any leaf.
        root_children: the most candidates that are made from the original model.
        failing_children: a node with more children than this is given up if all of them failed.
    """

    kind: ClassVar[str] = "epsilon-greedy"

    epsilon: float = 0.35
    root_children: int = 5
    failing_children: int = 3

    def __post_init__(self) -> None:
        at_least(_WHERE, self, root_children=1, failing_children=0)
        between_0_and(_WHERE, self, epsilon=1.0)


@dataclass(frozen=True, slots=True)
class OriginalOnly:
    """Always the original model: independent attempts."""

    kind: ClassVar[str] = "original"


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest candidate, valid or refused: a chain of revisions.

    Attributes:
        from_admitted: start the chain from the fastest solution that was admitted from outside.
    """

    kind: ClassVar[str] = "latest"

    from_admitted: bool = True
