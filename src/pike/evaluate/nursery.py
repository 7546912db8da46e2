"""The next child, started before it is needed: importing torch costs more than judging a small candidate.

Knows how to start a clean child beside the current one, wait until it is ready, and hand it out once, with what
compilers left for the same candidate before. A child never serves two candidates. Does not know candidates.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

from pike.evaluate.caches import Caches
from pike.evaluate.child.stub import HelloOrder
from pike.evaluate.child.wire import Command, WireClosed, WireTimeout, WireViolation
from pike.evaluate.launch import Child, ChildPlan

_READY_SECONDS = 120.0


class Nursery:
    """At most one spare child, and the kept caches."""

    def __init__(self) -> None:
        self._caches = Caches()
        self._spare: tuple[ChildPlan, Child] | None = None
        self._ready = False
        self.remembered = False
        """Whether the child that was taken last found what its candidate's compilers had left."""

    @property
    def pids(self) -> set[int]:
        """The spare's process, which belongs to nobody yet."""
        return {self._spare[1].pid} if self._spare else set()

    def take(self, plan: ChildPlan, identity: tuple[object, ...] = ()) -> Child:
        """A child that nobody used: the spare where it fits the plan, else a new one.

        Args:
            plan: how it is held; where compilers' caches lie is added here.
            identity: of whom it will run; see `caches.Caches.lend`.
        """
        self.remembered = self._caches.lend(*identity)
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
        """Begin to start the next child; returns at once. It runs nothing of a candidate until it is taken."""
        plan = self._complete(plan)
        if self._spare and self._spare[0] == plan:
            return
        self.give_up()
        self._spare, self._ready = (plan, Child(plan)), False
        with contextlib.suppress(WireClosed):  # `settle` finds out
            self._spare[1].send(Command.HELLO, HelloOrder(compilers=plan.cuda))

    def settle(self) -> None:
        """Wait until the spare has nothing left to do, so that it is quiet; one that fails is given up."""
        if self._spare is None or self._ready:
            return
        try:
            self._spare[1].receive(time.monotonic() + _READY_SECONDS)
            self._ready = True
        except (WireClosed, WireTimeout, WireViolation):
            self.give_up()

    def stand_still(self, still: bool) -> None:
        """Stop the spare while something is timed, or let it go on."""
        if self._spare and still:
            self._spare[1].freeze()
        elif self._spare:
            self._spare[1].thaw()

    def take_back(self, keep: bool) -> None:
        """After the child that was taken is dead: keep its caches for the next time, or not."""
        with contextlib.suppress(OSError):  # a full disk costs what was to be kept, never a verdict
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
