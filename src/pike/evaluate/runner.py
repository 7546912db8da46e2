"""One child as the judge drives it: order, wait, stage inputs, call, read outputs.

Knows every way in which a child can fail and the status owed for it, and whose time is running. Does not know how data
reach the child and where the clock stops (`handover`), nor what is right or fast enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from pike.core.evaluation import Status
from pike.evaluate import filters
from pike.evaluate.child.layout import Layout, take_apart, views
from pike.evaluate.child.wire import Command, Reply, Up, WireClosed, WireTimeout, WireViolation
from pike.evaluate.handover import Handover, Shape, make
from pike.evaluate.launch import Child
from pike.evaluate.reference import Inputs
from pike.evaluate.refusal import Refused, lacks_device_memory

_LOOKS = 500
"""How often a board is looked at between two looks at everything else: some tens of microseconds."""


class Allowance:
    """The candidate's own time: it runs down while the judge waits for the child, and at no other moment."""

    def __init__(self, seconds: float) -> None:
        self.limit_seconds = seconds
        self.left_seconds = seconds

    def spend(self, started: float) -> None:
        """Charge the time since `started` (on `time.monotonic`'s clock)."""
        self.left_seconds -= time.monotonic() - started


@dataclass(frozen=True, slots=True)
class Call:
    """The judge's wall clock of one hand-over, and what the child says about it, both in nanoseconds.

    Attributes:
        wall_ns: by the judge's clock.
        child_ns: by the child's.
        hint: the child's answer to what was asked beside the call; labels may rest on it, verdicts never.
    """

    wall_ns: int
    child_ns: int
    hint: int = 0


class Runner:
    """Drives one child through build, load, map and calls."""

    def __init__(
        self, child: Child, device: torch.device, allowance: Allowance, make_way: Callable[[], float] = lambda: 0.0
    ) -> None:
        """Take charge of a child.

        Args:
            child: a started child.
            device: where its buffers lie.
            allowance: its own time.
            make_way: called now and then while the child works; returns the seconds for which it was stopped meanwhile.
        """
        self._make_way = make_way
        self.child = child
        self.device = device
        self.allowance = allowance
        self._make_handover: Callable[[Shape, torch.device], Handover] = make
        self._handover: Handover | None = None
        self._sealed = False

    def order(self, command: Command, body: object = None, on_broken: Status = Status.RUNTIME_ERROR,
              fds: tuple[int, ...] = ()) -> Up:  # fmt: skip
        """Send a command and wait for its answer; every way in which the child can fail becomes `Refused`.

        Args:
            command: what to do.
            body: its body.
            on_broken: the status for an exception or a death in this stage.
            fds: descriptors that travel with it.

        Raises:
            Refused: with the status owed.
        """
        self.send(command, body, on_broken, fds)
        return self.receive(on_broken)

    def send(self, command: Command, body: object = None, on_broken: Status = Status.RUNTIME_ERROR,
             fds: tuple[int, ...] = ()) -> None:  # fmt: skip
        """The first half of `order`."""
        try:
            self.child.send(command, body, fds)
        except WireClosed as error:
            raise self._death(on_broken) from error

    def receive(self, on_broken: Status = Status.RUNTIME_ERROR) -> Up:
        """The second half of `order`."""
        started, stopped = time.monotonic(), [0.0]

        def on_wait() -> float:
            self._look()
            stopped.append(self._make_way())
            return stopped[-1]

        try:
            up = self.child.receive(started + max(self.allowance.left_seconds, 0.0), on_wait)
        except WireTimeout as error:
            raise self._too_long() from error
        except WireViolation as error:
            raise Refused(Status.SANDBOX_VIOLATION, str(error)) from error
        except WireClosed as error:
            raise self._death(on_broken) from error
        finally:
            self.allowance.spend(started + sum(stopped))
        if up.reply is not Reply.OK:
            raise self._failure(up.reply, on_broken)
        return up

    def until(self, ready: Callable[[], bool]) -> int:
        """Look at `ready` until it holds; see `handover.Talk`.

        Raises:
            Refused: the child failed, or its time is up.
        """
        started, stopped = time.monotonic(), 0.0
        try:
            while True:
                for _ in range(_LOOKS):
                    if ready():
                        return time.perf_counter_ns()
                if self.child.has_answered() and not ready():
                    self.receive()
                    raise Refused(Status.SANDBOX_VIOLATION, "the child answered before it delivered")
                if time.monotonic() - started - stopped > self.allowance.left_seconds:
                    raise self._too_long()
                self._look()
                stopped += self._make_way()
        finally:
            self.allowance.spend(started + stopped)

    def map(self, inputs: Layout, outputs: Layout, may_alias: bool, places: int = 1) -> None:
        """Make the shared regions, each with `places` for the data of one call, and hand them down; may be called again
        for other shapes."""
        self._release()
        self._inputs, self._outputs = inputs, outputs
        self._handover = self._make_handover(Shape(inputs, outputs, may_alias, places), self.device)
        body, fds = self._handover.order()
        self.order(Command.MAP, body, Status.INFRA_ERROR, fds)

    def stage(self, *inputs: Inputs) -> torch.Tensor:
        """The inputs to release together, packed one behind the other in the judge's own memory (uint8)."""
        size = self._inputs.nbytes
        packed = torch.zeros(len(inputs) * size, dtype=torch.uint8, device=self.device)
        for place, one in enumerate(inputs):
            tensors, _ = take_apart((one.args, one.kwargs))
            for view, tensor in zip(views(packed[place * size :], self._inputs), tensors, strict=True):
                view.copy_(tensor)
        return packed

    def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> Call:
        """Hand over what was staged and take a snapshot of all outputs.

        Raises:
            Refused: the call failed, or it changed its inputs.
        """
        assert self._handover is not None, "a call before `map`"
        self._look()
        wall, up = self._handover.call(self, packed, command)
        self._taken = self._handover.taken()
        return Call(wall, up.nanoseconds, up.detail)

    def snapshots(self) -> list[torch.Tensor]:
        """Private copies of what the last hand-over left in the output region (uint8), one for each input."""
        return [part.clone() for part in torch.split(self._taken, self._outputs.nbytes)]  # one kept keeps no other

    def outputs(self, snapshot: torch.Tensor | None = None) -> list[torch.Tensor]:
        """The output tensors of the last hand-over's first input, or of an earlier snapshot."""
        return [view.clone() for view in views(self._taken if snapshot is None else snapshot, self._outputs)]

    def seal(self) -> None:
        """Building is over: helpers end, and from now on the child starts no program; may be called again.

        Raises:
            Refused: the kernel's own account says that the filter does not hold everywhere.
        """
        if self._sealed or not filters.work():
            return
        self.child.end_helpers()
        self.order(Command.SEAL, None, Status.SANDBOX_VIOLATION)
        # A thread of the child can have started another helper in between; from now on none can.
        self.child.end_helpers()
        if problem := self.child.unsealed():
            raise Refused(Status.SANDBOX_VIOLATION, problem)
        self._sealed = True

    def close(self) -> None:
        """Kill the child and give the shared memory back."""
        self.child.kill()
        self._release()

    def _release(self) -> None:
        if self._handover is not None:
            self._handover.close()
        self._handover = None

    def _look(self) -> None:
        """End a child whose tree uses too much; the look itself is taken on both sides alike, outside the clock."""
        if reason := self.child.watch.breach():
            self.child.end()
            raise Refused(Status.RESOURCE_LIMIT, reason)

    def _too_long(self) -> Refused:
        limit = self.allowance.limit_seconds
        return Refused(Status.TIMEOUT, f"the candidate used more than its {limit:g} seconds")

    def _death(self, on_broken: Status) -> Refused:
        ending = self.child.ending()
        if "SIGKILL" in ending:
            return Refused(Status.RESOURCE_LIMIT, f"the child process {ending}, most likely for using too much memory")
        return Refused(on_broken, f"the child process {ending}")

    def _failure(self, reply: Reply, on_broken: Status) -> Refused:
        last = last_line(self.child.log())
        if reply is Reply.BAD_CONTRACT:
            return Refused(Status.BAD_CONTRACT, last.removeprefix("contract: "))
        if reply is Reply.OUT_OF_MEMORY or lacks_device_memory(last):
            return Refused(Status.RESOURCE_LIMIT, last or "out of memory")
        return Refused(on_broken, last or "the candidate raised an exception")


def last_line(log: str) -> str:
    """The last line of a log that says something, at most 300 characters."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and not line.startswith("---")]
    return lines[-1][:300] if lines else ""
