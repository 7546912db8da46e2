"""One sample: a first candidate and its immediate repairs, or one deferred repair.

Knows the state of a sample. Does not know verdicts or the budget.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from pike.core.step import Role, Scope
from pike.search.parts import Move, Node


class Phase(Enum):
    """The state of a sample."""

    PLANNED = auto()
    """Its next query is reserved and not asked yet."""
    RUNNING = auto()
    """A step of it is in flight."""
    FAILED = auto()
    """Its last candidate was refused and it has attempts left, so it wants a repair."""
    CLOSED = auto()
    """Nothing more is asked for it."""


@dataclass(slots=True)
class Sample:
    """A first candidate and its immediate repairs, or one deferred repair of an earlier candidate.

    Attributes:
        round: its round; for a deferred repair, the round of the first candidate.
        begun: the round in which it was begun.
        reserved: queries that are set aside for it.
        idea: the brainstormed idea it starts from.
        inspirations: what its selection shows beside the seed.
        attempts: repairs asked so far.
        failing: id of the candidate to repair, empty before the first refusal.
        refused: ids of its refused candidates that hold code, in order.
        plan: the plan to carry out, empty before there is one.
        asked: the role that its last step asked.
        result: the candidate it stands for by now, None before the first.
        original_ms: the original's time in its verdict, None if that was known before or there is
            none.
    """

    round: int
    index: int
    move: Move
    begun: int = 0
    reserved: int = 1
    idea: str | None = None
    scope: Scope = Scope.ANY
    inspirations: tuple[str, ...] = ()
    phase: Phase = Phase.PLANNED
    attempts: int = 0
    failing: str = ""
    refused: list[str] = field(default_factory=list)
    plan: str = ""
    asked: Role | None = None
    result: Node | None = None
    original_ms: float | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Position in the order of samples."""
        return self.round, self.index

    @property
    def may_refund(self) -> bool:
        """Whether a query set aside for it may still be freed, because its plan may fail."""
        return not self.plan and self.reserved > (0 if self.phase is Phase.RUNNING else 1)
