"""A run taken up again: its state from the journal, and the strategy brought to where it stood.

Knows that a strategy is rebuilt by calling it again with what is in the journal. Does not start or judge anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pike.core.errors import UserError
from pike.core.events import Admitted, Asked, Entry, Event, Told
from pike.core.step import Outcome, Strategy
from pike.engine.memory import Memory


def rebuild(memory: Memory, strategy: Strategy, entries: Iterable[Entry], folder: Path) -> None:
    """Fold a journal into an empty `memory` and replay its decisions on a new `strategy`.

    Raises:
        UserError: the strategy decides otherwise than it did, so the run cannot be continued.
    """
    for entry in entries:
        memory.replay(entry)
        _decide_again(memory, strategy, entry.event, folder)


def _decide_again(memory: Memory, strategy: Strategy, event: Event, folder: Path) -> None:
    match event:
        case Admitted(candidate=candidate, evaluation=evaluation):
            strategy.admit(candidate, evaluation)
        case Asked(step=step):
            asked = strategy.ask()
            if asked != step:
                raise UserError(
                    f"The run in {folder} cannot be resumed: version {memory.version} of PIKE decided {step}, this "
                    f"version decides {asked}; resume it with the version that began it"
                )
        case Told():
            strategy.tell(outcome_of(memory, event))
        case _:
            pass


def outcome_of(memory: Memory, told: Told) -> Outcome:
    """The outcome that a `Told` event stands for; its candidate and verdict were written before it."""
    answer = memory.answers.get(told.step_id)
    solution = memory.solutions[told.candidate_id] if told.candidate_id is not None else None
    return Outcome(
        step_id=told.step_id,
        candidate=solution.candidate if solution else None,
        evaluation=solution.evaluation if solution else None,
        ideas=told.ideas,
        failure=told.failure,
        text=told.text,
        usd=answer.usd if answer else None,
    )
