"""What a run has spent, folded from its journal.

Knows which events cost what, and which calls were never answered. Does not know prices or limits:
the ledger of the engine decides whether one more call may be made.
"""

from dataclasses import dataclass

from pike.core.events import Asked, BatchSent, Event, QueryAnswered, QueryFailed, QuerySent, Resumed, RunStarted
from pike.core.query import Answer
from pike.core.settings.budget import Spend
from pike.core.settings.config import LlmConfig
from pike.core.step import Step


@dataclass(frozen=True, slots=True)
class Uncertain:
    """Calls that were sent and have no outcome in the journal: they may have been charged.

    Attributes:
        calls: how many.
        usd: the most they cost, as far as prices are known.
        tokens: the most tokens they used.
    """

    calls: int = 0
    usd: float = 0.0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The most that one call can cost.

    Attributes:
        usd: money, None where the price is unknown.
        tokens: of the prompt and the whole output limit.
    """

    usd: float | None
    tokens: int


class Accounts:
    """Totals of one run, folded from its events in order.

    Attributes:
        spend: budgeted queries asked for, and what answered calls cost.
        held_usd: the worst case of answers whose price is unknown although their model has one.
    """

    def __init__(self) -> None:
        self.spend = Spend()
        self.held_usd = 0.0
        self._llm = LlmConfig()
        self._open: dict[tuple[int, int], WorstCase] = {}
        self._lost: list[WorstCase] = []
        self._collectable: set[int] = set()

    @property
    def uncertain(self) -> Uncertain:
        """Calls without an outcome, those in flight in this process included."""
        calls = [*self._lost, *self._open.values()]
        return Uncertain(len(calls), sum((call.usd or 0.0 for call in calls), 0.0), sum(call.tokens for call in calls))

    @property
    def in_flight(self) -> int:
        """How many calls of this process have no outcome yet, and are in no batch."""
        return sum(step_id not in self._collectable for step_id, _ in self._open)

    def queries_of(self, step: Step) -> int:
        """How many queries a step is: none where recipes answer it."""
        return step.queries if self._llm.asks_model(step.role) else 0

    def apply(self, event: Event) -> None:
        """Take one event."""
        match event:
            case RunStarted(config=config):
                self._llm = config.llm
            case Asked(step=step):
                self.spend += Spend(queries=self.queries_of(step))
            case QuerySent(query=query, attempt=attempt, reserved_usd=usd, reserved_tokens=tokens):
                if query.step_id in self._collectable:  # the same call, which waits for its batch again
                    self._open = {key: call for key, call in self._open.items() if key[0] != query.step_id}
                self._open[query.step_id, attempt] = WorstCase(usd, tokens)
            case BatchSent(steps=steps, handle=handle) if handle:
                self._collectable.update(steps)
            case QueryAnswered(step_id=step_id, attempt=attempt, answer=answer):
                self._collectable.discard(step_id)
                self._pay(self._open.pop((step_id, attempt), None), answer)
            case QueryFailed(step_id=step_id, attempt=attempt):
                self._open.pop((step_id, attempt), None)
            case Resumed():
                # Attempts are numbered anew: what a dead process had sent is lost, unless a batch holds it.
                self._lost.extend(call for key, call in self._open.items() if key[0] not in self._collectable)
                self._open = {key: call for key, call in self._open.items() if key[0] in self._collectable}

    def _pay(self, worst: WorstCase | None, answer: Answer) -> None:
        tokens = answer.input_tokens + answer.output_tokens
        self.spend += Spend(usd=answer.usd or 0.0, tokens=tokens, unpriced=int(answer.usd is None))
        if answer.usd is None and worst is not None:
            self.held_usd += worst.usd or 0.0
