"""A run read back: its state from the journal, and the strategy brought to where it stood.

Knows that a strategy is rebuilt by calling it again with the journal's events. Does not start or
judge anything.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pike import store
from pike.core.errors import UserError
from pike.core.events import Admitted, Asked, Event, JournalEntry, RunStarted, Told
from pike.core.step import Outcome, Strategy
from pike.engine.state.run_state import RunState


def beginning(entries: Sequence[JournalEntry], folder: Path) -> RunStarted:
    """The first event of a journal.

    Raises:
        UserError: the run has not begun.
    """
    if not entries or not isinstance(entries[0].event, RunStarted):
        raise UserError(f"The run in {folder} never began: remove the folder and start the run again")
    return entries[0].event


def continued(entries: Sequence[JournalEntry], folder: Path) -> RunStarted:
    """The first event of a journal that can go on.

    Raises:
        UserError: the run has not begun, or another tool carried it out.
    """
    begun = beginning(entries, folder)
    if begun.imported is not None:
        tool = begun.imported.tool
        raise UserError(f"The run in {folder} was imported from {tool} and cannot be resumed: begin one of your own")
    return begun


def state_of(entries: Sequence[JournalEntry], folder: Path) -> RunState:
    """The state that journal entries add up to."""
    beginning(entries, folder)
    state = RunState()
    for entry in entries:
        state.replay(entry)
    return state


def read_state(folder: Path) -> RunState:
    """The state of the run in `folder`, read without touching it."""
    return state_of(tuple(store.read(folder)), folder)


def rebuild(state: RunState, strategy: Strategy, entries: Iterable[JournalEntry], folder: Path) -> None:
    """Fold a journal into an empty `state` and repeat its decisions on a new `strategy`."""
    for entry in entries:
        state.replay(entry)
        _decide_again(state, strategy, entry.event, folder)


def _decide_again(state: RunState, strategy: Strategy, event: Event, folder: Path) -> None:
    match event:
        case Admitted(candidate=candidate, evaluation=evaluation):
            strategy.admit(candidate, evaluation)
        case Asked(step=step):
            asked = strategy.ask()
            if asked != step:
                raise UserError(
                    f"The run in {folder} cannot be resumed: version {state.version} of PIKE decided {step}, this "
                    f"version decides {asked}; resume it with the version that began it"
                )
        case Told():
            strategy.tell(outcome_of(state, event))


def outcome_of(state: RunState, told: Told) -> Outcome:
    """The outcome behind a `Told` event; its candidate and verdict were written before it."""
    answer = state.answers.get(told.step_id)
    solution = state.solutions[told.candidate_id] if told.candidate_id is not None else None
    return Outcome(
        step_id=told.step_id,
        candidate=solution.candidate if solution else None,
        evaluation=solution.evaluation if solution else None,
        ideas=told.ideas,
        failure=told.failure,
        text=told.text,
        usd=answer.usd if answer else None,
    )
