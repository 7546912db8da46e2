"""One child as the judge drives it: order, wait, stage inputs, call, read outputs.

Knows every failure of a child and its status. Does not know where the clock stops (`transfer`).
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from pike.core.verdict.evaluation import Status
from pike.judge.calls.transfer import Transfer, make
from pike.judge.child.memory.layout import ContractBroken, delivered, put_together, take_apart, views
from pike.judge.child.orders import Shape
from pike.judge.child.wire import DIAGNOSTIC, ChildMessage, ChildReply, Command, WireClosed, WireTimeout, WireViolation
from pike.judge.process import filters
from pike.judge.process.child import Child
from pike.judge.reference.reference import Inputs
from pike.judge.refusal import Refused, lacks_device_memory

_BUILDING = "RuntimeError: Error building extension"
_LOOKS = 500
"""Polls of the control page between two looks at the child; some tens of microseconds."""


class Allowance:
    """The candidate's own time, which runs only while the judge waits for the child."""

    def __init__(self, seconds: float) -> None:
        self.limit_seconds, self.of_what = seconds, ""
        self.left_seconds = seconds

    def spend(self, started: float) -> None:
        """Charge the time since `started` (on `time.monotonic`'s clock)."""
        self.left_seconds -= time.monotonic() - started

    @contextmanager
    def at_most(self, seconds: float, of_what: str) -> Iterator[None]:
        """A context in which no more than so many of them may be spent."""
        kept, usual = max(0.0, self.left_seconds - seconds), (self.limit_seconds, self.of_what)
        if kept:
            self.left_seconds, self.limit_seconds, self.of_what = seconds, seconds, of_what
        try:
            yield
        finally:
            self.left_seconds += kept
            self.limit_seconds, self.of_what = usual


@dataclass(frozen=True, slots=True)
class CallTimes:
    """One call by two clocks.

    Attributes:
        wall_ns: nanoseconds by the judge's clock.
        child_ns: nanoseconds by the child's own.
        hint: what the child says beside its time. Labels may rest on it, verdicts never.
    """

    wall_ns: float
    child_ns: float
    hint: int = 0


class Misfit(Refused):
    """An output does not have the contract's form on `inputs`; perhaps the contract is too narrow."""

    def __init__(self, refused: Refused, inputs: Sequence[Inputs]) -> None:
        super().__init__(refused.status, refused.reason)
        self.inputs = inputs
        self.is_of_reference = False


class Runner:
    """Drives one child through build, load, map and calls."""

    def __init__(
        self, child: Child, device: torch.device, allowance: Allowance, yield_device: Callable[[], float] = lambda: 0.0
    ) -> None:
        """Take charge of a started child.

        `yield_device` is called now and then while it works. It may pause the child, and returns
        for how many seconds it did. No call may take longer than the attribute `call_seconds`.
        """
        self._yield_device = yield_device
        self.child = child
        self.device = device
        self.allowance = allowance
        self.call_seconds = math.inf
        self._transfer: Transfer | None = None
        self.sealed = False
        self._pid = 0

    @property
    def pid(self) -> int:
        """The process that runs the candidate; to be asked for once the child has answered."""
        self._pid = self._pid or self.child.speaker()
        return self._pid

    @property
    def fetches(self) -> bool:
        """Whether no output of a single call is copied inside the clock; once it is mapped."""
        return self._transfer is not None and self._transfer.fetches

    def order(self, command: Command, body: object = None, on_broken: Status = Status.RUNTIME_ERROR,
              fds: tuple[int, ...] = ()) -> ChildMessage:  # fmt: skip
        """Send a command and wait for its answer; an exception or a death means `on_broken`.

        Raises:
            Refused: the child failed in any way.
        """
        self.send(command, body, on_broken, fds)
        return self.receive(on_broken)

    def send(self, command: Command, body: object = None, on_broken: Status = Status.RUNTIME_ERROR,
             fds: tuple[int, ...] = ()) -> None:  # fmt: skip
        """The first half of `order`."""
        try:
            self.child.send(command, body, fds)
        except WireViolation as error:
            raise Refused(Status.SANDBOX_VIOLATION, str(error)) from error
        except WireClosed as error:
            raise self._death(on_broken) from error

    def receive(self, on_broken: Status = Status.RUNTIME_ERROR) -> ChildMessage:
        """The second half of `order`."""
        started = time.monotonic()
        try:
            up = self.child.receive(started + max(self.allowance.left_seconds, 0.0), self._meanwhile)
        except WireTimeout as error:
            raise self._too_long() from error
        except WireViolation as error:
            raise Refused(Status.SANDBOX_VIOLATION, str(error)) from error
        except WireClosed as error:
            raise self._death(on_broken) from error
        finally:
            self.allowance.spend(started)
        if up.reply is not ChildReply.OK:
            raise self._failure(up.reply, on_broken)
        return up

    def until(self, ready: Callable[[], bool]) -> int:
        """Poll `ready` until it holds; see `transfer.Conversation`.

        Raises:
            Refused: the child failed, or its time is up.
        """
        started = time.monotonic()
        try:
            while True:
                for _ in range(_LOOKS):
                    if ready():
                        return time.perf_counter_ns()
                if self.child.has_answered() and not ready():
                    self.receive()
                    raise Refused(Status.SANDBOX_VIOLATION, "the child answered before it delivered")
                if time.monotonic() - started > self.allowance.left_seconds:
                    raise self._too_long()
                self._meanwhile()
        finally:
            self.allowance.spend(started)

    def map(self, shape: Shape) -> None:
        """Make the shared regions; again for other shapes."""
        self._release()
        self._inputs, self._outputs = shape.inputs, shape.outputs
        self._transfer = make(shape, self.device, self.pid)
        body, fds = self._transfer.order()
        self.order(Command.MAP, body, Status.INFRA_ERROR, fds)

    def stage(self, *inputs: Inputs) -> torch.Tensor:
        """Inputs to release together, packed in the judge's own memory (uint8)."""
        size = self._inputs.nbytes
        packed = torch.zeros(len(inputs) * size, dtype=torch.uint8, device=self.device)
        for slot, one in enumerate(inputs):
            tensors, _ = take_apart((one.args, one.kwargs))
            for view, tensor in zip(views(packed[slot * size :], self._inputs), tensors, strict=True):
                view.copy_(tensor)
        return packed

    def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> CallTimes:
        """Call the child on staged inputs and take a snapshot of all outputs.

        Raises:
            Misfit: an output has another form than the layout's, or an input was changed.
            Refused: the call failed.
        """
        assert self._transfer is not None, "a call before `map`"
        self._look()
        try:
            with self.allowance.at_most(self.call_seconds, " for a call that is timed"):
                wall, up = self._transfer.call(self, packed, command)
        except Refused as refused:
            if refused.status is Status.BAD_CONTRACT:
                raise Misfit(refused, self._unpacked(packed)) from refused
            raise
        self._taken = self._transfer.taken()
        return CallTimes(wall, up.nanoseconds, up.detail)

    def _unpacked(self, packed: torch.Tensor) -> list[Inputs]:
        """The inverse of `stage`."""
        slots = torch.split(packed, self._inputs.nbytes)
        return [Inputs(*put_together(self._inputs.structure, views(slot, self._inputs))) for slot in slots]

    def snapshots(self) -> list[torch.Tensor]:
        """Private copies of the last call's output region (uint8), one for each input."""
        return [part.clone() for part in torch.split(self._taken, self._outputs.nbytes)]  # so that one keeps no other

    def outputs(self, snapshot: torch.Tensor | None = None) -> list[torch.Tensor]:
        """The output tensors of the last call's first input, or of an earlier snapshot.

        Raises:
            Refused: an output has a shape that is not possible.
        """
        taken = [view.clone() for view in views(self._taken if snapshot is None else snapshot, self._outputs)]
        try:
            return delivered(taken, self._outputs)
        except ContractBroken as error:
            raise Refused(Status.BAD_CONTRACT, str(error)) from error

    def seal(self) -> None:
        """End the helpers of the build; from now on the child starts no process.

        Raises:
            Refused: the kernel reports a thread that the filter does not hold.
        """
        if self.sealed or not filters.work():
            return
        self.child.end_helpers()
        self.order(Command.SEAL, None, Status.SANDBOX_VIOLATION)
        # A thread of the child may have started another helper in between; now none can.
        self.child.end_helpers()
        if problem := self.child.unsealed():
            raise Refused(Status.SANDBOX_VIOLATION, problem)
        self.sealed = True

    def close(self) -> None:
        """Kill the child and give the shared memory back."""
        self.child.kill()
        self._release()

    def _release(self) -> None:
        if self._transfer is not None:
            self._transfer.close()
        self._transfer = None

    def _meanwhile(self) -> float:
        """Look at the child and yield the device; returns its seconds, which are not charged."""
        self._look()
        stopped = self._yield_device()
        self.allowance.left_seconds += stopped
        return stopped

    def _look(self) -> None:
        """End a child whose tree uses too much; for both sides alike, outside the clock."""
        if reason := self.child.watch.breach():
            self.child.end()
            raise Refused(Status.RESOURCE_LIMIT, reason)

    def _too_long(self) -> Refused:
        limit, of_what = self.allowance.limit_seconds, self.allowance.of_what
        return Refused(Status.TIMEOUT, f"the candidate used more than its {limit:.3g} seconds{of_what}")

    def _death(self, on_broken: Status) -> Refused:
        ending = self.child.ending()
        if "SIGKILL" in ending:
            return Refused(
                Status.RESOURCE_LIMIT, f"the child process {ending}, most likely for using too much memory", died=True
            )
        return Refused(on_broken, f"the child process {ending}", died=True)

    def _failure(self, reply: ChildReply, on_broken: Status) -> Refused:
        log = self.child.log()
        last = last_line(log)
        if reply is ChildReply.BAD_CONTRACT:
            return Refused(Status.BAD_CONTRACT, last.removeprefix("contract: "))
        if reply is ChildReply.OUT_OF_MEMORY or lacks_device_memory(last):
            return Refused(Status.RESOURCE_LIMIT, last or "out of memory")
        if last.startswith(_BUILDING) and "..." not in last:  # with verbose=True, its compiler wrote to stdout
            last = " ... ".join([last, *[line.strip() for line in log.splitlines() if DIAGNOSTIC.search(line)][:1]])[
                :300
            ]
        return Refused(on_broken, last or "the candidate raised an exception")


def last_line(log: str) -> str:
    """The last line of a log with words in it, at most 300 characters."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and not line.startswith("---")]
    return lines[-1][:300] if lines else ""
