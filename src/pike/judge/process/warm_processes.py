"""The next child, started ahead where a level cannot fork it (`fork_server`).

It is handed out once, with its candidate's caches. A child never serves two candidates.
"""

import contextlib
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from pike.judge.child.orders import HelloOrder
from pike.judge.child.wire import Command, WireClosed, WireTimeout, WireViolation
from pike.judge.process.caches import Caches
from pike.judge.process.child import Child, ChildPlan

_READY_SECONDS = 120.0


class WarmProcesses:
    """At most one spare child, and the kept caches."""

    def __init__(self, caches: Caches | None = None) -> None:
        self._caches = caches or Caches()
        self._spare: tuple[ChildPlan, Child] | None = None
        self._ready = False
        self.remembered = False
        """Whether the last candidate found caches of its own."""

    @property
    def pids(self) -> set[int]:
        """The spare's process."""
        return {self._spare[1].pid} if self._spare else set()

    def take(self, plan: ChildPlan, identity: tuple[object, ...] = (), by: str = "") -> Child:
        """An unused child: the spare if it fits the plan, otherwise a new one.

        Its candidate's `identity` decides which caches it finds (`caches.Caches.lend`).
        """
        self.remembered = self._caches.lend(*identity, by=by)
        plan = self._complete(plan)
        if self._spare and self._spare[0] == plan:
            self.settle()
        spare, self._spare = self._spare, None
        if spare and spare[0] == plan:
            return spare[1]
        if spare:
            spare[1].kill()
        return Child(plan)

    def prepare(self, plan: ChildPlan) -> None:
        """Begin to start the next child, where that takes long; returns at once."""
        plan = self._complete(plan)
        if plan.level.forks or (self._spare and self._spare[0] == plan):
            return
        self.give_up()
        self._spare, self._ready = (plan, Child(plan)), False
        with contextlib.suppress(WireClosed):  # `settle` finds out
            self._spare[1].send(Command.HELLO, HelloOrder(compilers=plan.cuda))

    def settle(self) -> None:
        """Wait until the spare is idle; one that fails is given up."""
        if self._spare is None or self._ready:
            return
        try:
            self._spare[1].receive(time.monotonic() + _READY_SECONDS)
            self._ready = True
        except (WireClosed, WireTimeout, WireViolation):
            self.give_up()

    def paused(self) -> AbstractContextManager[object]:
        """A context in which the spare is stopped, because something is timed."""
        return self._spare[1].paused() if self._spare else nullcontext()

    def take_back(self, keep: bool) -> None:
        """Keep the caches of the last candidate, whose child is dead, or drop them."""
        with contextlib.suppress(OSError):
            self._caches.take_back(keep)

    def close(self) -> None:
        """Kill the spare and remove all caches."""
        self.give_up()
        self._caches.close()

    def give_up(self) -> None:
        """Kill the spare."""
        if self._spare:
            self._spare[1].kill()
        self._spare = None

    def _complete(self, plan: ChildPlan) -> ChildPlan:
        return replace(plan, kept_caches=str(self._caches.place))
