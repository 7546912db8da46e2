"""The child's half of a call: wait until the inputs are there, and deliver the outputs.

Nothing here protects anything: a candidate that cheats gains only what `judge.calls` allows.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from pike.judge.child.memory.cipher import CudaCipher, device_address
from pike.judge.child.memory.control_page import ControlPage
from pike.judge.child.memory.cuda_driver import call

_REHEARSED_NS, _REHEARSED_LAUNCHES_NS = 5_000_000, 50_000_000


class HostDelivery:
    """Inputs are there before the command comes; the judge fetches the outputs of one slot.

    The outputs of several slots are copied, because a candidate may reuse its memory.
    """

    def __init__(self, slots: Sequence[Sequence[torch.Tensor]] = (), told: torch.Tensor | None = None) -> None:
        """Deliver to these tensors, one sequence for each slot.

        `told` takes the address of each output of a single slot (int64); None to copy always.
        """
        self._slots, self._told, self._count = slots, told, 0
        self._kept: list[torch.Tensor] = []

    def begin(self, count: int, rehearse: Callable[[], object]) -> None:
        """Return when the inputs of the call are there for every kernel that follows.

        Args:
            count: how many slots the call has.
            rehearse: makes the same calls on whatever inputs are there, to warm up caches.
        """
        self._count, self._kept = count, []

    def deliver(self, leaves: Sequence[torch.Tensor], slot: int, last: bool) -> None:
        """Deliver the outputs of one slot; `last` says whether it is the last of the call."""
        if self._told is None or self._count > 1:
            for view, leaf in zip(self._slots[slot], leaves, strict=True):
                view.copy_(leaf)
            return
        self._kept = [_as_laid_out(leaf, view) for leaf, view in zip(leaves, self._slots[slot], strict=True)]
        for place, leaf in enumerate(self._kept):
            self._told[place] = leaf.data_ptr()


@dataclass(frozen=True, slots=True)
class EncryptedMemory:
    """The regions of an encrypted transfer, as uint8 tensors: `noise` is decrypted into `real`."""

    noise: torch.Tensor
    real: torch.Tensor
    page: torch.Tensor
    call_bytes: int


class CommittingOnDevice:
    """The same on a GPU, with kernels that wait for the key queued before the call."""

    def __init__(
        self, memory: EncryptedMemory, slots: Sequence[Sequence[torch.Tensor]], device: torch.device, kernels: bytes
    ) -> None:
        self._memory, self._device = memory, device
        self._page = ControlPage(memory.page)
        self._cipher = CudaCipher(kernels, device, device_address(memory.page))
        self._routes = [self._cipher.route(slot) for slot in slots]
        self._cold = torch.empty(2 * _cache_bytes(device), dtype=torch.uint8, device=device)
        self._practice = torch.zeros(256, dtype=torch.uint8, device=device)
        self._practice_route = self._cipher.route([self._practice])
        self._ticket = self._begun_ns = self._launched_ns = self._took_ns = 0

    def begin(self, count: int, rehearse: Callable[[], object]) -> None:
        """See `HostDelivery.begin`.

        A call that waits for the host is rehearsed first, so that the host's caches are as warm as
        in a loop of calls. Then the device's caches are made cold.
        """
        size = count * self._memory.call_bytes
        self._ticket += 1
        if is_rehearsed(self._launched_ns, self._took_ns):
            rehearse()
        self._cold.zero_()
        call("cuCtxResetPersistingL2Cache")
        self._cipher.commit([self._practice], self._practice_route, 0, first=True)
        torch.cuda.synchronize(self._device)
        self._cipher.await_key(self._ticket)
        self._cipher.decrypt(self._memory.noise[:size], self._memory.real[:size])
        self._page.say_ready(self._ticket)
        self._page.wait_for_key(self._ticket)
        self._begun_ns = time.perf_counter_ns()

    def deliver(self, leaves: Sequence[torch.Tensor], slot: int, last: bool) -> None:
        """See `HostDelivery.deliver`."""
        self._cipher.commit(leaves, self._routes[slot], self._ticket if last else 0, first=not slot)
        if last:
            self._launched_ns = time.perf_counter_ns() - self._begun_ns
            torch.cuda.synchronize(self._device)
            self._took_ns = time.perf_counter_ns() - self._begun_ns


Delivery = HostDelivery | CommittingOnDevice
COMMITTING: dict[str, Callable[..., Delivery]] = {"cuda": CommittingOnDevice}
"""What commits outputs on each kind of device; tests add a CPU."""


def is_rehearsed(launched_ns: int, took_ns: int) -> bool:
    """Whether the host's caches matter for a call: it is short, or mostly launches kernels.

    Args:
        launched_ns: how long the last call took to queue its kernels, 0 before the first call.
        took_ns: how long it took until the device had finished them.
    """
    return 0 < took_ns < (_REHEARSED_LAUNCHES_NS if 2 * launched_ns > took_ns else _REHEARSED_NS)


def _as_laid_out(leaf: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    """An output whose bytes lie in memory as they do in `view`; a copy unless they do."""
    plain = leaf.layout is torch.strided and leaf.is_contiguous() and not leaf.is_conj() and not leaf.is_neg()
    return leaf if plain else torch.empty_like(view).copy_(leaf)


def _cache_bytes(device: torch.device) -> int:
    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 64 << 20))
