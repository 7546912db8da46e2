"""An earlier run read back: its answers, its proposals and the order of its decisions.

Knows one journal. Does not know who asks for what is in it. A strategy may depend on the order in which verdicts
came in, so a replay that is to make the same decisions must also tell them in the same order: `RecordedPace`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pike import search, store
from pike.core.agent import Proposal
from pike.core.config import RunConfig
from pike.core.errors import UserError
from pike.core.events import Admitted, Asked, Event, Proposed, QueryAnswered, RunStarted, Stopped, Told
from pike.core.query import Answer
from pike.core.step import Candidate, Step

Decision = Asked | Told


@dataclass(frozen=True, slots=True)
class Recording:
    """What a run left in its journal.

    Attributes:
        folder: where it is.
        started: its first event.
        answers: its paid answers by step id.
        proposed: its candidates by step id.
        told: how its steps ended, by step id.
        admitted: solutions that entered from outside.
        decisions: what was asked and told, in order.
        stopped: why it stopped asking, `done` if its journal does not say.
    """

    folder: Path
    started: RunStarted
    answers: dict[int, Answer]
    proposed: dict[int, Candidate]
    told: dict[int, Told]
    admitted: tuple[Admitted, ...]
    decisions: tuple[Decision, ...]
    stopped: str

    def proposal(self, step_id: int) -> Proposal:
        """What the recorded step brought, as an agent would give it."""
        candidate, told = self.proposed.get(step_id), self.told.get(step_id)
        if candidate is not None and (told is None or told.candidate_id is not None):
            written = Proposal(candidate.source, author=candidate.author, note=candidate.note, parent=candidate.parent)
            return replace(written, recipes=candidate.recipes)
        if told is not None:
            return Proposal(ideas=told.ideas, text=told.text, failure=told.failure)
        return Proposal(failure="the recorded run has no outcome for this step")

    def require_same(self, task_id: str, config: RunConfig) -> None:
        """Check that a replay can make the same decisions.

        Raises:
            UserError: another task, strategy, query budget or run seed.
        """
        then = self.started.config
        for what, was, now in (
            ("task", self.started.task.id, task_id),
            ("strategy", search.resolve(then.strategy), config.strategy),
            ("query budget", then.budget.queries, config.budget.queries),
            ("run seed", then.engine.run_seed, config.engine.run_seed),
        ):
            if was != now:
                raise UserError(
                    f"A replay of {self.folder} needs its {what}, {was}, not {now}; "
                    "or give --set llm.replay_verdicts=false to use only its answers"
                )


def record_of(folder: Path) -> Recording:
    """Read a run back.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    events: list[Event] = [entry.event for entry in store.read(folder)]
    if not events or not isinstance(events[0], RunStarted):
        raise UserError(f"The run in {folder} has not begun, so there is nothing to replay")
    reasons = [event.reason for event in events if isinstance(event, Stopped)]
    return Recording(
        folder=folder,
        started=events[0],
        answers={event.step_id: event.answer for event in events if isinstance(event, QueryAnswered)},
        proposed={event.step_id: event.candidate for event in events if isinstance(event, Proposed)},
        told={event.step_id: event for event in events if isinstance(event, Told)},
        admitted=tuple(event for event in events if isinstance(event, Admitted)),
        decisions=tuple(event for event in events if isinstance(event, Asked | Told)),
        stopped=reasons[-1] if reasons else "done",
    )


class Pace(Protocol):
    """When the run loop may ask and tell."""

    @property
    def limit(self) -> int | None:
        """Steps in flight at once, None where the recorded order decides."""
        ...

    @property
    def over(self) -> str:
        """Why nothing more may be asked, empty while something may."""
        ...

    @property
    def outside(self) -> bool:
        """Whether answers come from outside this process: then nothing in flight means waiting, not the end."""
        ...

    def may_ask(self) -> bool:
        """Whether a step may be asked now."""
        ...

    def asked(self, step: Step | None) -> None:
        """Take note of what the strategy gave when it was asked."""
        ...

    def answers(self, step_id: int) -> bool:
        """Whether the step gets an outcome at all, so that it is worth starting."""
        ...

    async def turn_to_tell(self, step_id: int) -> None:
        """Wait until the outcome of a step may be told; it then must be, without waiting for anything."""
        ...


class FreePace:
    """Ask while there is room, tell what is ready."""

    outside = False

    def __init__(self, concurrency: int) -> None:
        self.limit: int | None = max(1, concurrency)
        self.over = ""

    def may_ask(self) -> bool:
        """Always."""
        return True

    def asked(self, step: Step | None) -> None:
        """Nothing to compare with."""

    def answers(self, step_id: int) -> bool:
        """Every step does."""
        return True

    async def turn_to_tell(self, step_id: int) -> None:
        """No waiting."""


class RecordedPace:
    """Ask and tell in the order of a recorded run.

    Args:
        recording: the run to follow.
        asked: steps that this run asked before it was resumed.
        told: outcomes that it told.
    """

    outside = False

    def __init__(self, recording: Recording, asked: int = 0, told: int = 0) -> None:
        self.limit: int | None = None
        self._reason = recording.stopped
        self._told = set(recording.told)
        # What happened here so far is a beginning of the recording: the order is the same.
        self._left = deque(recording.decisions[asked + told :])
        self._moved = asyncio.Event()

    @property
    def over(self) -> str:
        """The recorded reason, once everything recorded was decided again."""
        return "" if self._left else self._reason

    def may_ask(self) -> bool:
        """Whether the recorded run asked next."""
        return bool(self._left) and isinstance(self._left[0], Asked)

    def answers(self, step_id: int) -> bool:
        """Whether the recorded run told its outcome; the last steps of a run may have been left open."""
        return step_id in self._told

    def asked(self, step: Step | None) -> None:
        """Compare with the recorded step.

        Raises:
            UserError: another step than was recorded.
        """
        recorded = self._next()
        if step is None or recorded != Asked(step):
            raise UserError(
                f"The replay decided differently from the recorded run ({step} where it had {recorded}): "
                "it was made by another version of the strategy or with other options"
            )

    async def turn_to_tell(self, step_id: int) -> None:
        """Wait until the recorded run told this step."""
        while not (self._left and isinstance(self._left[0], Told) and self._left[0].step_id == step_id):
            await self._moved.wait()
        self._next()

    def _next(self) -> Decision:
        decision = self._left.popleft()
        # Whoever waits looks again; a new event keeps later waiters waiting.
        self._moved.set()
        self._moved = asyncio.Event()
        return decision
