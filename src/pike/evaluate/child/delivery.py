"""The child's half of a call: wait until its inputs are there, and hand over its outputs.

Knows the counterpart of each way in `evaluate.handover`. Does not know models. Nothing here protects anything: a
candidate that does it another way gains what the judge leaves it to gain there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from pike.evaluate.child.board import Board
from pike.evaluate.child.cuda_driver import call
from pike.evaluate.child.locks import CudaLocks, HostLocks, device_address

_REHEARSED_NS, _REHEARSED_LAUNCHES_NS = 5_000_000, 50_000_000


class Delivery(Protocol):
    """How one mapped call begins and ends."""

    def begin(self, count: int, rehearse: Callable[[], object]) -> None:
        """Return when the call has begun: the inputs of `count` places are there before any kernel that follows.

        Args:
            count: how many places.
            rehearse: does what will follow, on whatever inputs are there; called if that is of use.
        """
        ...

    def deliver(self, leaves: Sequence[torch.Tensor], place: int, last: bool) -> None:
        """Hand over the outputs of one place; `last` says that all of this call have now been handed over."""
        ...


class Copying:
    """Inputs are there before the command comes; outputs are copied."""

    def __init__(self, places: Sequence[Sequence[torch.Tensor]] = ()) -> None:
        """Deliver to these tensors, one sequence for each place."""
        self._places = places

    def begin(self, count: int, rehearse: Callable[[], object]) -> None:
        """See `Delivery.begin`."""

    def deliver(self, leaves: Sequence[torch.Tensor], place: int, last: bool) -> None:
        """See `Delivery.deliver`."""
        for view, leaf in zip(self._places[place], leaves, strict=True):
            view.copy_(leaf)


@dataclass(frozen=True, slots=True)
class LockedMemory:
    """Regions of a locked hand-over, as uint8: noise, the place for real inputs, and the board's page; bytes a call."""

    noise: torch.Tensor
    real: torch.Tensor
    page: torch.Tensor
    call_bytes: int


class CommittingOnHost:
    """Inputs are revealed when the judge says the key; outputs are copied and committed."""

    def __init__(self, memory: LockedMemory, places: Sequence[Sequence[torch.Tensor]]) -> None:
        self._memory = memory
        self._board = Board(memory.page)
        self._locks = HostLocks(self._board)
        self._places, self._ticket = places, 0

    def begin(self, count: int, rehearse: Callable[[], object]) -> None:
        """See `Delivery.begin`."""
        size = count * self._memory.call_bytes
        self._ticket += 1
        self._board.say_ready(self._ticket)
        self._locks.set_key(self._board.wait_for_key(self._ticket))
        self._locks.reveal(self._memory.noise[:size], self._memory.real[:size])

    def deliver(self, leaves: Sequence[torch.Tensor], place: int, last: bool) -> None:
        """See `Delivery.deliver`."""
        self._locks.commit(leaves, self._places[place], self._ticket if last else 0, first=not place)


class CommittingOnDevice:
    """The same on a GPU, where the kernels that wait for the key and reveal the inputs are queued before the call."""

    def __init__(
        self,
        memory: LockedMemory,
        places: Sequence[Sequence[torch.Tensor]],
        device: torch.device,
        kernels: bytes,
    ) -> None:
        self._memory, self._device = memory, device
        self._board = Board(memory.page)
        self._locks = CudaLocks(kernels, device, device_address(memory.page))
        self._routes = [self._locks.route(place) for place in places]
        self._cold = torch.empty(2 * _cache_bytes(device), dtype=torch.uint8, device=device)
        self._practice = torch.zeros(256, dtype=torch.uint8, device=device)
        self._practice_route = self._locks.route([self._practice])
        self._ticket = self._begun_ns = self._launched_ns = self._took_ns = 0

    def begin(self, count: int, rehearse: Callable[[], object]) -> None:
        """See `Delivery.begin`.

        A call that waits for the host is rehearsed, so that the host's caches are as warm as in a loop of calls, and
        then the device's are made cold.
        """
        size = count * self._memory.call_bytes
        self._ticket += 1
        if is_rehearsed(self._launched_ns, self._took_ns):
            rehearse()
        self._cold.zero_()
        call("cuCtxResetPersistingL2Cache")
        self._locks.commit([self._practice], self._practice_route, 0, first=True)
        torch.cuda.synchronize(self._device)
        self._locks.await_key(self._ticket)
        self._locks.reveal(self._memory.noise[:size], self._memory.real[:size])
        self._board.say_ready(self._ticket)
        self._board.wait_for_key(self._ticket)
        self._begun_ns = time.perf_counter_ns()

    def deliver(self, leaves: Sequence[torch.Tensor], place: int, last: bool) -> None:
        """See `Delivery.deliver`."""
        self._locks.commit(leaves, self._routes[place], self._ticket if last else 0, first=not place)
        if last:
            self._launched_ns = time.perf_counter_ns() - self._begun_ns
            torch.cuda.synchronize(self._device)
            self._took_ns = time.perf_counter_ns() - self._begun_ns


def is_rehearsed(launched_ns: int, took_ns: int) -> bool:
    """Whether the host's caches matter for a call: it is short, or launching its kernels is most of it.

    Args:
        launched_ns: how long the last one took until all its kernels were queued; 0 for the first call.
        took_ns: until the device had finished them.
    """
    return 0 < took_ns < (_REHEARSED_LAUNCHES_NS if 2 * launched_ns > took_ns else _REHEARSED_NS)


def _cache_bytes(device: torch.device) -> int:
    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 64 << 20))
