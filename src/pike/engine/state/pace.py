"""When a run may ask its strategy, and when it may tell an outcome.

Knows the free pace and the order of a recorded run. A strategy may depend on the order of
verdicts, so a replay tells them in the recorded order. Does not know answers.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from pike.core.errors import UserError
from pike.core.events import Asked, Told
from pike.core.step import Step
from pike.engine.state.ledger import SharedBudget
from pike.engine.state.replay import Decision, Recording
from pike.engine.state.run_state import RunState


class Pace(Protocol):
    """When the run loop may ask and tell."""

    @property
    def limit(self) -> int | None:
        """Steps in flight at once, None where the recorded order decides."""

    @property
    def over(self) -> str:
        """Why nothing more may be asked, empty while something may."""

    @property
    def outside(self) -> bool:
        """Whether answers are external: a run with nothing in flight then waits."""

    def may_ask(self) -> bool:
        """Whether a step may be asked now."""

    def asked(self, step: Step | None) -> None:
        """Take note of the step that the strategy gave."""

    def answers(self, step_id: int) -> bool:
        """Whether the step gets an outcome in this process, so that it is worth starting."""

    async def turn_to_tell(self, step_id: int) -> None:
        """Wait until a step's outcome may be told; it must be told then, without another wait."""


class FreePace:
    """Ask while there is room, tell what is ready."""

    outside = False

    def __init__(self, concurrency: int, over: Callable[[], str] = str) -> None:
        self.limit: int | None = max(1, concurrency)
        self._over = over

    @property
    def over(self) -> str:
        """Why nothing more may be asked, as the run was told from outside."""
        return self._over()

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
        # This run has followed the recording so far, so what is left begins here.
        self._left = deque(recording.decisions[asked + told :])
        self._moved = asyncio.Event()

    @property
    def over(self) -> str:
        """The recorded reason, once every recorded decision was made again."""
        return "" if self._left else self._reason

    def may_ask(self) -> bool:
        """Whether the recorded run asked next."""
        return bool(self._left) and isinstance(self._left[0], Asked)

    def answers(self, step_id: int) -> bool:
        """Whether the recorded run told its outcome; it may have left its last steps open."""
        return step_id in self._told

    def asked(self, step: Step | None) -> None:
        """Compare with the recorded step.

        Raises:
            UserError: it is another step.
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
        # The old event wakes all that wait; they look again and wait for the new one.
        self._moved.set()
        self._moved = asyncio.Event()
        return decision


class BudgetShare(Protocol):
    """One run's part of a campaign, for as long as the run is open."""

    @property
    def shared_budget(self) -> SharedBudget:
        """The money that all runs spend from."""

    def opened(self, state: RunState) -> None:
        """Take note of the run's state, which is kept up to date while the run is open."""

    def pace(self, concurrency: int) -> Pace:
        """When the run may ask, with so many steps in flight at most."""

    def stops(self, first: Callable[[], None], again: Callable[[], None]) -> AbstractContextManager[None]:
        """Pass the campaign's wish to stop on: `first` stops the run cleanly, `again` at once."""
