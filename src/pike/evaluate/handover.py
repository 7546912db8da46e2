"""How one call's data reach a child and come back, and where the clock starts and stops.

Knows two ways. *Copied* (CPU): the judge writes the inputs and takes a snapshot of the outputs inside the clock.
*Locked* (GPU): both would cost two changes of context there, so the judge prepares inputs that are noise until it
says the key, and the child's commitment to the outputs' bytes stops the clock; the judge's snapshot, taken later, must
have that digest. In both ways an input does not exist for the child before the clock starts, and nothing that is
written after it stopped is seen. Does not know children's failures (`runner`) or what is right.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from pike.core.evaluation import Status
from pike.evaluate import nvrtc
from pike.evaluate.child import regions
from pike.evaluate.child.board import BOARD_BYTES, KEY_BYTES, Board, key_words
from pike.evaluate.child.layout import Layout, views
from pike.evaluate.child.locks import CudaLocks, HostLocks, Locks
from pike.evaluate.child.stub import LockOrder, MapOrder
from pike.evaluate.child.wire import Command, Up
from pike.evaluate.refusal import Refused

_POISON = 0xFF
"""All bits set: NaN in every floating-point type, -1 in every signed integer type."""


class Talk(Protocol):
    """A conversation with one child; every way in which it can fail is raised as `Refused`."""

    def send(self, command: Command, body: object) -> None:
        """Send a command."""
        ...

    def receive(self) -> Up:
        """The answer to the last command."""
        ...

    def until(self, ready: Callable[[], bool]) -> int:
        """Look at `ready` until it holds, without sleeping; returns `time.perf_counter_ns` of that moment."""
        ...


@dataclass(frozen=True, slots=True)
class Shape:
    """What lies in the regions.

    Attributes:
        inputs: layout of one call's inputs.
        outputs: layout of one call's outputs.
        may_alias: whether the reference itself returns memory of its inputs.
        places: how many calls' data the regions hold.
    """

    inputs: Layout
    outputs: Layout
    may_alias: bool
    places: int


class Handover(Protocol):
    """The shared memory of one child, and one call through it."""

    def order(self) -> tuple[MapOrder, tuple[int, ...]]:
        """What the child must be told to take part, with the descriptors that go along."""
        ...

    def call(self, talk: Talk, packed: torch.Tensor, command: Command) -> tuple[int, Up]:
        """One call on staged inputs: nanoseconds by the judge's clock, and the child's answer.

        Raises:
            Refused: the child failed, changed its inputs or did not keep to what it committed.
        """
        ...

    def taken(self) -> torch.Tensor:
        """The judge's own copy of all outputs of the last call (uint8), valid until the next one."""
        ...

    def close(self) -> None:
        """Give the shared memory back."""
        ...


class Copied:
    """The judge copies inputs in and outputs out, and both count."""

    def __init__(self, shape: Shape, device: torch.device) -> None:
        self._shape = shape
        self._source = regions.allocate(shape.places * shape.inputs.nbytes, device)
        self._target = regions.allocate(shape.places * shape.outputs.nbytes, device)
        self._snapshot = torch.empty_like(self._target.tensor)
        self._taken = self._snapshot[: shape.outputs.nbytes]

    def order(self) -> tuple[MapOrder, tuple[int, ...]]:
        """See `Handover.order`."""
        shape = self._shape
        assert self._source.fd is not None and self._target.fd is not None
        order = MapOrder(
            shape.inputs, shape.outputs, self._source.nbytes, self._target.nbytes, shape.may_alias, shape.places
        )
        return order, (self._source.fd, self._target.fd)

    def call(self, talk: Talk, packed: torch.Tensor, command: Command) -> tuple[int, Up]:
        """See `Handover.call`."""
        source, target = self._parts(packed)
        target.fill_(_POISON)
        started = time.perf_counter_ns()
        source.copy_(packed)
        talk.send(command, packed.numel() // self._shape.inputs.nbytes)
        up = talk.receive()
        self._taken.copy_(target)
        wall = time.perf_counter_ns() - started
        _check_unchanged(source, packed)
        return wall, up

    def taken(self) -> torch.Tensor:
        """See `Handover.taken`."""
        return self._taken

    def close(self) -> None:
        """See `Handover.close`."""
        self._source.close()
        self._target.close()

    def _parts(self, packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The shared inputs and outputs of as many calls as were staged."""
        count = packed.numel() // self._shape.inputs.nbytes
        target = self._target.tensor[: count * self._shape.outputs.nbytes]
        self._taken = self._snapshot[: target.numel()]
        return self._source.tensor[: packed.numel()], target


class Locked(Copied):
    """The judge says a key, the child commits to its outputs, and nothing else happens inside the clock."""

    def __init__(self, shape: Shape, device: torch.device, kernels: bytes = b"") -> None:
        """Make the memory.

        Args:
            shape: what lies in it.
            device: where.
            kernels: `locks.cu` for a GPU; empty on a CPU.
        """
        super().__init__(shape, device)
        self._device, self._kernels = device, kernels
        self._noise = regions.allocate(shape.places * shape.inputs.nbytes, device)
        self._page = regions.allocate(BOARD_BYTES, torch.device("cpu"))
        self._board = Board(self._page.tensor)
        self._own = torch.zeros(BOARD_BYTES, dtype=torch.uint8, device=device)
        self._locks = self._own_locks()
        size = shape.outputs.nbytes
        self._routes = [
            self._locks.route(views(self._snapshot[place * size :], shape.outputs)) for place in range(shape.places)
        ]
        self._ticket = 0

    def order(self) -> tuple[MapOrder, tuple[int, ...]]:
        """See `Handover.order`."""
        order, fds = super().order()
        assert self._noise.fd is not None and self._page.fd is not None
        lock = LockOrder(self._kernels, self._noise.nbytes, self._page.nbytes)
        return replace(order, lock=lock), (*fds, self._noise.fd, self._page.fd)

    def call(self, talk: Talk, packed: torch.Tensor, command: Command) -> tuple[int, Up]:
        """See `Handover.call`."""
        source, target = self._parts(packed)
        key = self._prepare(packed, target)
        talk.send(command, packed.numel() // self._shape.inputs.nbytes)
        ticket, board, words = self._ticket, self._board, key_words(key)
        talk.until(lambda: board.ready() == ticket)
        started = time.perf_counter_ns()
        board.go(ticket, words)
        wall = talk.until(lambda: board.committed() == ticket) - started
        promised = board.digest()
        up = talk.receive()
        self._taken.copy_(target)
        _check_unchanged(source, packed)
        if self._digest() != promised:
            raise Refused(Status.UNTRUSTED_TIMING, "the outputs are not the ones committed when the clock stopped")
        return wall, up

    def close(self) -> None:
        """See `Handover.close`."""
        super().close()
        self._noise.close()
        self._page.close()

    def _prepare(self, packed: torch.Tensor, target: torch.Tensor) -> bytes:
        """Poison the outputs and lock the inputs with a new key; all of it done when this returns."""
        key = secrets.token_bytes(KEY_BYTES)
        self._ticket += 1
        target.fill_(_POISON)
        self._locks.set_key(key)
        self._locks.reveal(packed, self._noise.tensor[: packed.numel()])
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return key

    def _digest(self) -> bytes:
        """What the snapshot's commitment is: the same arithmetic as the child's, on the judge's own copy."""
        count = self._taken.numel() // self._shape.outputs.nbytes
        for place in range(count):
            leaves = views(self._taken[place * self._shape.outputs.nbytes :], self._shape.outputs)
            last = place == count - 1
            self._locks.commit(leaves, self._routes[place], self._ticket if last else 0, first=not place)
        return Board(self._own.cpu()).digest()

    def _own_locks(self) -> Locks:
        if self._device.type == "cuda":
            return CudaLocks(self._kernels, self._device, self._own.data_ptr())
        return HostLocks(Board(self._own))


def make(shape: Shape, device: torch.device) -> Handover:
    """The hand-over for a device.

    Raises:
        InfraError: a GPU without NVRTC.
    """
    if device.type != "cuda":
        return Copied(shape, device)
    major, minor = torch.cuda.get_device_capability(device)
    return Locked(shape, device, nvrtc.locks(f"{major}{minor}"))


def _check_unchanged(source: torch.Tensor, packed: torch.Tensor) -> None:
    if not torch.equal(source, packed):
        raise Refused(Status.BAD_CONTRACT, "the candidate modified its inputs in place; work on a copy")
