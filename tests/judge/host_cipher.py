"""The GPU's cipher and commitment played on a CPU: the oracle of the kernels, and a child without a GPU.

A candidate or reference that imports this module commits its outputs on the CPU.
"""

import ctypes
import struct
from collections.abc import Callable, Sequence

import torch

from pike.judge.child import delivery
from pike.judge.child.delivery import EncryptedMemory
from pike.judge.child.memory.cipher import blocks_for
from pike.judge.child.memory.control_page import PAGE_BYTES, ControlPage

_ROUNDS, _LANES, _MOST_SEGMENTS, _UNIT_BYTES = 3, 128, 8, 16
_DECRYPT, _LANE, _TOP = 0x70696B31, 0x70696B32, 0x70696B33


class HostCipher:
    """The same arithmetic with torch on a CPU; slow, and the oracle in tests of the kernels."""

    def __init__(self, page: ControlPage) -> None:
        """Publish commitments on `page`."""
        self._page = page
        self._chain = torch.zeros(4, dtype=torch.int32)
        self._key = torch.zeros(4, dtype=torch.int32)

    @classmethod
    def at(cls, address: int) -> "HostCipher":
        """A cipher that publishes at an address of this process."""
        return cls(
            ControlPage(torch.frombuffer((ctypes.c_uint8 * PAGE_BYTES).from_address(address), dtype=torch.uint8))
        )

    def set_key(self, key: bytes) -> None:
        """Use this key (16 bytes) from now on."""
        self._key = torch.frombuffer(bytearray(key), dtype=torch.int32)

    def decrypt(self, encrypted: torch.Tensor, real: torch.Tensor) -> None:
        """Remove the key stream; doing it twice gives the original.

        Args:
            encrypted: uint8, a multiple of 256 bytes.
            real: where the result goes, of the same size; may be `encrypted`.
        """
        data = encrypted.view(torch.int32).view(-1, 8)
        before = _opened(self._key, torch.zeros(len(data)), torch.arange(len(data)), _DECRYPT)
        real.view(torch.int32).view(-1, 8).copy_(data ^ (_permuted(before) + before))

    def route(self, to: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """What `commit` takes to send outputs to these contiguous tensors."""
        return to

    def commit(self, leaves: Sequence[torch.Tensor], route: Sequence[torch.Tensor], ticket: int, first: bool) -> None:
        """Copy outputs along a route and digest them.

        Args:
            leaves: tensors of the same shapes and dtypes as the route's, or those very tensors.
            route: from `route`.
            ticket: published with the digest; 0 to publish nothing yet.
            first: whether a new digest begins, instead of one that continues the last.
        """
        for leaf, target in zip(leaves, route, strict=True):
            target.copy_(leaf)
        for begin in range(0, len(route), _MOST_SEGMENTS) or (0,):
            part = [_units(target) for target in route[begin : begin + _MOST_SEGMENTS]]
            before = torch.zeros_like(self._chain) if first and begin == 0 else self._chain
            digest = _digest(torch.cat([*part, torch.zeros(0, 4, dtype=torch.int32)]), self._key)
            self._chain = _joined(digest[None], before[None])[0]
        if ticket:
            self._page.commit(ticket, struct.pack("<4i", *self._chain.tolist()))


def _units(tensor: torch.Tensor) -> torch.Tensor:
    data = tensor.contiguous().view(-1).view(torch.uint8) if tensor.numel() else torch.zeros(0, dtype=torch.uint8)
    whole = torch.zeros(-(-len(data) // _UNIT_BYTES) * _UNIT_BYTES, dtype=torch.uint8)
    whole[: len(data)] = data
    return whole.view(torch.int32).view(-1, 4)


def _digest(units: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The digest of all units: one a lane, joined to one a block, joined to one."""
    blocks = blocks_for(len(units))
    own = _absorbed(units, blocks * _LANES, key, len(units), _LANE).view(blocks, _LANES, 4)
    found = torch.stack([_tree(block) for block in own])
    return _tree(_absorbed(found, _LANES, key, blocks, _TOP)) if blocks > 1 else found[0]


def _absorbed(units: torch.Tensor, lanes: int, key: torch.Tensor, size: int, domain: int) -> torch.Tensor:
    """The digest of each lane, which takes every `lanes`-th unit."""
    state = _opened(key, torch.arange(lanes), torch.full((lanes,), size), domain)
    for begin in range(0, len(units), lanes):
        part = units[begin : begin + lanes]
        state[: len(part), :4] ^= part
        state[: len(part)] = _permuted(state[: len(part)])
    return state[:, :4].contiguous()


def _tree(digests: torch.Tensor) -> torch.Tensor:
    while len(digests) > 1:
        half = len(digests) // 2
        digests = _joined(digests[:half], digests[half:])
    return digests[0]


def _joined(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return _permuted(torch.cat([left, right], dim=1))[:, :4] ^ left


def _opened(key: torch.Tensor, lanes: torch.Tensor, sizes: torch.Tensor, domain: int) -> torch.Tensor:
    """A lane's first state, as 32-bit words in two's complement."""
    state = torch.empty(len(lanes), 8, dtype=torch.int32)
    state[:, :4] = key
    state[:, 4] = lanes
    state[:, 5] = sizes.to(torch.int32)
    state[:, 6] = (sizes >> 32).to(torch.int32)
    state[:, 7] = domain
    return state


def _permuted(state: torch.Tensor) -> torch.Tensor:
    w = list(state.clone().unbind(dim=1))
    for number in range(_ROUNDS):
        w[0] += _signed(0x9E3779B9 * (number + 1))
        for a, b, c, d in ((0, 2, 4, 6), (1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6)):
            _quarter(w, a, b, c, d)
    return torch.stack(w, dim=1)


def _quarter(w: list[torch.Tensor], a: int, b: int, c: int, d: int) -> None:
    for to, left, right, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        w[to] += w[left]
        mixed = w[right] ^ w[to]
        w[right] = (mixed << by) | ((mixed >> (32 - by)) & ((1 << by) - 1))


def _signed(word: int) -> int:
    word &= 0xFFFFFFFF
    return word - (1 << 32) if word >> 31 else word


class CommittingOnHost:
    """Inputs are decrypted when the judge says the key; outputs are copied and committed."""

    def __init__(self, memory: EncryptedMemory, slots: Sequence[Sequence[torch.Tensor]], *_: object) -> None:
        self._memory = memory
        self._page = ControlPage(memory.page)
        self._cipher = HostCipher(self._page)
        self._slots, self._ticket = slots, 0

    def begin(self, count: int, rehearse: Callable[[], object]) -> None:
        """See `HostDelivery.begin`."""
        size = count * self._memory.call_bytes
        self._ticket += 1
        self._page.say_ready(self._ticket)
        self._cipher.set_key(self._page.wait_for_key(self._ticket))
        self._cipher.decrypt(self._memory.noise[:size], self._memory.real[:size])

    def deliver(self, leaves: Sequence[torch.Tensor], slot: int, last: bool) -> None:
        """See `HostDelivery.deliver`."""
        self._cipher.commit(leaves, self._slots[slot], self._ticket if last else 0, first=not slot)


delivery.COMMITTING["cpu"] = CommittingOnHost
