"""One child with its shared buffers, as the judge drives it: order, hand over inputs, snapshot outputs, read the
clock.

Knows the serial hand-over: the input does not exist in the child's memory before the clock starts, and the clock
stops when the judge holds its own copy of an output that was poisoned before. Does not know what is right or fast
enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from pike.core.evaluation import Status
from pike.evaluate import filters
from pike.evaluate.child import regions
from pike.evaluate.child.layout import Layout, take_apart, views
from pike.evaluate.child.stub import MapOrder
from pike.evaluate.child.wire import Command, Reply, Up, WireClosed, WireTimeout, WireViolation
from pike.evaluate.launch import Child
from pike.evaluate.reference import Inputs

_POISON = 0xFF
"""All bits set: NaN in every floating-point type, -1 in every signed integer type."""


class Refused(Exception):
    """The candidate failed in a way that ends its evaluation."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


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
        self._flush = _flush_buffer(device)
        self._sealed = False

    def order(self, command: Command, body: Any = None, on_broken: Status = Status.RUNTIME_ERROR,
              fds: tuple[int, ...] = ()) -> Up:  # fmt: skip
        """Send a command; every way in which the child can fail becomes `Refused`.

        Args:
            command: what to do.
            body: its body.
            on_broken: the status for an exception or a death in this stage.
            fds: descriptors that travel with it.

        Raises:
            Refused: with the status owed.
        """
        started = time.monotonic()
        stopped = [0.0]

        def on_wait() -> float:
            self._look()
            stopped.append(self._make_way())
            return stopped[-1]

        try:
            up = self.child.order(command, body, started + max(self.allowance.left_seconds, 0.0), fds, on_wait)
        except WireTimeout as error:
            limit = self.allowance.limit_seconds
            raise Refused(Status.TIMEOUT, f"the candidate used more than its {limit:g} seconds") from error
        except WireViolation as error:
            raise Refused(Status.SANDBOX_VIOLATION, str(error)) from error
        except WireClosed as error:
            raise self._death(on_broken) from error
        finally:
            self.allowance.spend(started + sum(stopped))
        if up.reply is not Reply.OK:
            raise self._failure(up.reply, on_broken)
        return up

    def map(self, inputs: Layout, outputs: Layout, may_alias: bool, places: int = 1) -> None:
        """Make the shared regions, each with `places` for the data of one call, and hand them down; may be called again
        for other shapes."""
        self._release()
        self._inputs, self._outputs = inputs, outputs
        self._source = regions.allocate(places * inputs.nbytes, self.device)
        self._target = regions.allocate(places * outputs.nbytes, self.device)
        self._snapshot = torch.empty_like(self._target.tensor)
        self._taken = self._snapshot[: outputs.nbytes]
        assert self._source.fd is not None and self._target.fd is not None
        body = MapOrder(inputs, outputs, self._source.nbytes, self._target.nbytes, may_alias, places)
        self.order(Command.MAP, body, Status.INFRA_ERROR, (self._source.fd, self._target.fd))

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
        self._look()
        count = packed.numel() // self._inputs.nbytes
        source = self._source.tensor[: packed.numel()]
        target = self._target.tensor[: count * self._outputs.nbytes]
        self._taken = self._snapshot[: target.numel()]
        target.fill_(_POISON)
        if self._flush is not None:
            self._flush.zero_()
        self._settle()
        started = time.perf_counter_ns()
        source.copy_(packed)
        self._settle()
        up = self.order(command, count)
        self._taken.copy_(target)
        self._settle()
        wall = time.perf_counter_ns() - started
        if not torch.equal(source, packed):
            raise Refused(Status.BAD_CONTRACT, "the candidate modified its inputs in place; work on a copy")
        return Call(wall, up.nanoseconds, up.detail)

    def snapshots(self) -> list[torch.Tensor]:
        """Private copies of what the last hand-over left in the output region (uint8), one for each input."""
        return list(torch.split(self._taken.clone(), self._outputs.nbytes))

    def outputs(self, snapshot: torch.Tensor | None = None) -> list[torch.Tensor]:
        """The output tensors of the last hand-over's first input, or of an earlier snapshot."""
        return [view.clone() for view in views(self._snapshot if snapshot is None else snapshot, self._outputs)]

    def seal(self) -> None:
        """Building is over: helpers end, and from now on the child starts no program; may be called again.

        Raises:
            Refused: the kernel's own account says that the filter does not hold everywhere.
        """
        if self._sealed or not filters.work():
            return
        self.child.end_helpers()
        self.order(Command.SEAL, None, Status.SANDBOX_VIOLATION)
        if problem := self.child.unsealed():
            raise Refused(Status.SANDBOX_VIOLATION, problem)
        self._sealed = True

    def close(self) -> None:
        """Kill the child and give the shared memory back."""
        self.child.kill()
        self._release()

    def _release(self) -> None:
        for region in ("_source", "_target"):
            if hasattr(self, region):
                getattr(self, region).close()
                delattr(self, region)

    def _look(self) -> None:
        """End a child whose tree uses too much; the look itself is taken on both sides alike, outside the clock."""
        if reason := self.child.watch.breach():
            self.child.end()
            raise Refused(Status.RESOURCE_LIMIT, reason)

    def _settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _death(self, on_broken: Status) -> Refused:
        ending = self.child.ending()
        if "SIGKILL" in ending:
            return Refused(Status.RESOURCE_LIMIT, f"the child process {ending}, most likely for using too much memory")
        return Refused(on_broken, f"the child process {ending}")

    def _failure(self, reply: Reply, on_broken: Status) -> Refused:
        last = last_line(self.child.log())
        if reply is Reply.BAD_CONTRACT:
            return Refused(Status.BAD_CONTRACT, last.removeprefix("contract: "))
        if reply is Reply.OUT_OF_MEMORY:
            return Refused(Status.RESOURCE_LIMIT, last or "out of memory")
        return Refused(on_broken, last or "the candidate raised an exception")


def last_line(log: str) -> str:
    """The last line of a log that says something, at most 300 characters."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and not line.startswith("---")]
    return lines[-1][:300] if lines else ""


def _flush_buffer(device: torch.device) -> torch.Tensor | None:
    """Twice the L2 cache of a GPU; a CPU is timed with warm caches."""
    if device.type != "cuda":
        return None
    cache = int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 64 << 20))
    return torch.empty(2 * cache, dtype=torch.uint8, device=device)
