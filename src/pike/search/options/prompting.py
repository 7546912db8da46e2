"""The content of a step: its words, inspirations, roles, and how far a rewrite should go.

Knows the kinds and their dials. Does not know prompts (`pike.agents`).
"""

from dataclasses import dataclass
from typing import ClassVar

from pike.search.options.ranges import Choice, at_least, between_0_and


class Wording(Choice):
    """What prompts ask for and show beside the task and its terms."""

    PUBLISHED = "published"
    """What the papers describe: the seed, the idea, the diagnostics; errors will be repaired."""
    DARING = "daring"
    """Large steps, worked examples, and for a repair the working file it came from."""


@dataclass(frozen=True, slots=True)
class NoInspiration:
    """Show the seed only (mutation)."""

    kind: ClassVar[str] = "none"


@dataclass(frozen=True, slots=True)
class Fastest:
    """Show the fastest solutions that the library holds."""

    kind: ClassVar[str] = "fastest"

    count: int = 5

    def __post_init__(self) -> None:
        at_least("strategy.inspiration", self, count=0)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Show what the library draws beside a seed (crossover).

    The defaults are PIKE-O's: its prompt shows 3 top programs, the next 2 as "diverse" ones, and
    as many inspirations as top programs (the authors' fork of OpenEvolve, `prompt/sampler.py`).

    Attributes:
        top: how many of the fastest; with islands, of the seed's island.
        others: how many inspirations an island draws; 0 with other libraries.
    """

    kind: ClassVar[str] = "drawn"

    top: int = 5
    others: int = 3

    def __post_init__(self) -> None:
        at_least("strategy.inspiration", self, top=0, others=0)


@dataclass(frozen=True, slots=True)
class Windows:
    """STARK's windows: each role sees its own part of the tree.

    Attributes:
        leaders: length of the leaderboard.
        relatives: the most relatives of each kind that are shown, the newest.
    """

    kind: ClassVar[str] = "windows"

    leaders: int = 5
    relatives: int = 8

    def __post_init__(self) -> None:
        at_least("strategy.inspiration", self, leaders=0, relatives=0)


@dataclass(frozen=True, slots=True)
class Optimise:
    """The code optimisation agent writes a candidate, in one query."""

    kind: ClassVar[str] = "optimise"
    queries: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class PlanCode:
    """A planning agent, then a coding agent: two queries that are only begun together.

    Attributes:
        plan_temperature: sampling temperature of the planning agent.
        code_temperature: sampling temperature of the coding agent.
        count_attempts: a plan costs no query, so that the budget counts attempts as STARK does; an
            unusable plan still uses its attempt.
    """

    kind: ClassVar[str] = "plan-code"

    plan_temperature: float = 0.8
    code_temperature: float = 0.1
    count_attempts: bool = False

    @property
    def queries(self) -> int:
        """The queries of a sample before its repairs."""
        return 1 if self.count_attempts else 2

    def __post_init__(self) -> None:
        between_0_and("strategy.roles", self, plan_temperature=2.0, code_temperature=2.0)


@dataclass(frozen=True, slots=True)
class AnyScope:
    """Prompts do not say how far a rewrite should go."""

    kind: ClassVar[str] = "any"


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Ask for small steps after a gain, and for another approach on a plateau.

    Attributes:
        plateau: samples without a new best that make a plateau.
    """

    kind: ClassVar[str] = "adaptive"

    plateau: int = 20

    def __post_init__(self) -> None:
        at_least("strategy.scope", self, plateau=1)
