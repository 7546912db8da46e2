"""Locked inputs and committed outputs: what lets the clock stop and start without the judge touching the device.

Knows two acts. *Reveal* removes a key stream from a locked input; before the key is known the input is noise. *Commit*
copies outputs to where the judge reads them and digests their bytes with the key; whoever published a digest can no
longer change the bytes. The permutation behind both has 256 bits, half of which an attacker never reaches, so that
finding other bytes for a digest takes 2^64 tries: not within a call. Both sides run this module; the judge's own run
is the one that is believed. Does not know when which call is due (`board`) or what the bytes mean.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from pike.evaluate.child.board import COMMITMENT_OFFSET, GO_OFFSET, Board
from pike.evaluate.child.cuda_driver import CudaDriverError, call, driver

_ROUNDS = 3
_LANES, _MOST_BLOCKS, _UNITS_A_LANE = 128, 1056, 2
_MOST_SEGMENTS = 8
_REVEAL, _LANE, _TOP = 0x70696B31, 0x70696B32, 0x70696B33
_UNIT_BYTES = 16
_REVEAL_BYTES = 32
_THREADS = 256
KERNELS = ("pike_await_key", "pike_reveal", "pike_commit")
"""What the kernels of `locks.cu` are called, in a profile too."""


class Locks(Protocol):
    """What a device can do with locked data."""

    def set_key(self, key: bytes) -> None:
        """The key (16 bytes) of what follows."""
        ...

    def reveal(self, locked: torch.Tensor, real: torch.Tensor) -> None:
        """Write to `real` what `locked` holds without its key stream; doing it twice gives the original.

        Args:
            locked: uint8, a multiple of 256 bytes.
            real: the same size; may be `locked`.
        """
        ...

    def route(self, to: Sequence[torch.Tensor]) -> Any:
        """What `commit` takes to send outputs to these contiguous tensors."""
        ...

    def commit(self, leaves: Sequence[torch.Tensor], route: Any, ticket: int, first: bool) -> None:
        """Copy `leaves` to where the route goes and digest them.

        Args:
            leaves: tensors of the same shapes and dtypes as the route's, or those very tensors.
            route: from `route`.
            ticket: published with the digest; 0 to publish nothing yet.
            first: whether a new digest begins; otherwise the last one goes into this one.
        """
        ...


def blocks_for(units: int) -> int:
    """How many blocks of lanes digest so many units of 16 bytes; part of the digest's definition."""
    return max(1, min(_MOST_BLOCKS, -(-units // (_LANES * _UNITS_A_LANE))))


class _Segment(ctypes.Structure):
    _fields_ = (("source", ctypes.c_uint64), ("target", ctypes.c_uint64), ("bytes", ctypes.c_uint64))


class _Order(ctypes.Structure):
    _fields_ = (
        ("at", _Segment * _MOST_SEGMENTS),
        ("units", ctypes.c_uint64),
        ("ticket", ctypes.c_uint64),
        ("scratch", ctypes.c_uint64),
        ("board", ctypes.c_uint64),
        ("segments", ctypes.c_uint32),
        ("first", ctypes.c_uint32),
    )


class _Numbers:
    """Kernel arguments of 64 bits each."""

    def __init__(self, *values: int) -> None:
        count = len(values)
        self._values = (ctypes.c_uint64 * count)(*values)
        start = ctypes.addressof(self._values)
        self.arguments = (ctypes.c_void_p * count)(*(start + 8 * place for place in range(count)))


class _Launch:
    """Up to eight outputs that one launch commits, with all of its arguments but the sources laid out."""

    def __init__(self, to: Sequence[torch.Tensor], scratch: int, board: int) -> None:
        self.to = to
        self.order = _Order(scratch=scratch, board=board, segments=len(to))
        for segment, target in zip(self.order.at, to, strict=False):
            segment.target, segment.bytes = target.data_ptr(), target.nbytes
            self.order.units += -(-target.nbytes // _UNIT_BYTES)
        self.segments = list(self.order.at)
        self.blocks = blocks_for(self.order.units)
        self.arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.order))

    def read_from(self, leaves: Sequence[torch.Tensor]) -> None:
        """Fill in the sources; what a kernel cannot read as it lies is copied first."""
        for segment, leaf, target in zip(self.segments, leaves, self.to, strict=False):
            address = leaf.data_ptr()
            if address % _UNIT_BYTES or not _is_plain(leaf, target):
                target.copy_(leaf)
                address = segment.target
            segment.source = address


class CudaLocks:
    """Locks on a GPU, by kernels on the current stream."""

    def __init__(self, kernels: bytes, device: torch.device, board_address: int) -> None:
        """Load the kernels into the current context.

        Args:
            kernels: `locks.cu` as a cubin for this device.
            device: the device.
            board_address: the board as the device sees it.

        Raises:
            CudaDriverError: the kernels do not load.
        """
        self._device, self._index = device, device.index or 0
        self._scratch = torch.zeros(12 + 4 * _MOST_BLOCKS, dtype=torch.int32, device=device)
        self._address = self._scratch.data_ptr()
        self._board = board_address
        module = ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(module), kernels)
        self._await, self._reveal, self._commit = (_function(module, name.encode()) for name in KERNELS)

    def set_key(self, key: bytes) -> None:
        """See `Locks.set_key`."""
        self._scratch[:4].copy_(torch.frombuffer(bytearray(key), dtype=torch.int32))

    def await_key(self, ticket: int) -> None:
        """Let the stream wait until the board says that this call has begun, and take the key from there."""
        numbers = _Numbers(self._board + GO_OFFSET, ticket, self._address)
        self._launch(self._await, 1, 1, numbers.arguments)

    def reveal(self, locked: torch.Tensor, real: torch.Tensor) -> None:
        """See `Locks.reveal`."""
        units = locked.numel() // _REVEAL_BYTES
        numbers = _Numbers(locked.data_ptr(), real.data_ptr(), units, self._address)
        self._launch(self._reveal, min(-(-units // _THREADS), 4 * _MOST_BLOCKS), _THREADS, numbers.arguments)

    def route(self, to: Sequence[torch.Tensor]) -> list[_Launch]:
        """See `Locks.route`."""
        board = self._board + COMMITMENT_OFFSET
        return [_Launch(to[begin : begin + _MOST_SEGMENTS], self._address, board) for begin in _begins(to)]

    def commit(self, leaves: Sequence[torch.Tensor], route: list[_Launch], ticket: int, first: bool) -> None:
        """See `Locks.commit`."""
        for number, launch in enumerate(route):
            begin = number * _MOST_SEGMENTS
            launch.read_from(leaves[begin : begin + _MOST_SEGMENTS] if number else leaves)
            launch.order.ticket = ticket if launch is route[-1] else 0
            launch.order.first = first and not number
            self._launch(self._commit, launch.blocks, _LANES, launch.arguments)

    def _launch(self, function: ctypes.c_void_p, blocks: int, threads: int, arguments: Any) -> None:
        stream = ctypes.c_void_p(torch._C._cuda_getCurrentRawStream(self._index))
        code = driver().cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, None)
        if code:
            raise CudaDriverError("cuLaunchKernel", code)


def _begins(to: Sequence[torch.Tensor]) -> Sequence[int]:
    return range(0, len(to), _MOST_SEGMENTS) or (0,)


def _is_plain(leaf: torch.Tensor, target: torch.Tensor) -> bool:
    return leaf.is_contiguous() and leaf.device == target.device and not (leaf.is_conj() or leaf.is_neg())


def _function(module: ctypes.c_void_p, name: bytes) -> ctypes.c_void_p:
    function = ctypes.c_void_p()
    call("cuModuleGetFunction", ctypes.byref(function), module, name)
    return function


def device_address(page: torch.Tensor) -> int:
    """Make a page of host memory visible to the GPU of the current context; returns its address there.

    Raises:
        CudaDriverError: the memory cannot be pinned.
    """
    mapped, found = ctypes.c_uint(2), ctypes.c_uint64(0)
    call("cuMemHostRegister_v2", ctypes.c_void_p(page.data_ptr()), ctypes.c_size_t(page.numel()), mapped)
    call("cuMemHostGetDevicePointer_v2", ctypes.byref(found), ctypes.c_void_p(page.data_ptr()), ctypes.c_uint(0))
    return found.value


class HostLocks:
    """The same arithmetic with torch on a CPU: slow, and what the kernels are held against."""

    def __init__(self, board: Board) -> None:
        """Publish commitments on `board`."""
        self._board = board
        self._chain = torch.zeros(4, dtype=torch.int32)
        self._key = torch.zeros(4, dtype=torch.int32)

    def set_key(self, key: bytes) -> None:
        """See `Locks.set_key`."""
        self._key = torch.frombuffer(bytearray(key), dtype=torch.int32)

    def reveal(self, locked: torch.Tensor, real: torch.Tensor) -> None:
        """See `Locks.reveal`."""
        data = locked.view(torch.int32).view(-1, 8)
        before = _opened(self._key, torch.zeros(len(data)), torch.arange(len(data)), _REVEAL)
        real.view(torch.int32).view(-1, 8).copy_(data ^ (_permuted(before) + before))

    def route(self, to: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """See `Locks.route`."""
        return to

    def commit(self, leaves: Sequence[torch.Tensor], route: Sequence[torch.Tensor], ticket: int, first: bool) -> None:
        """See `Locks.commit`."""
        for leaf, target in zip(leaves, route, strict=True):
            target.copy_(leaf)
        for begin in _begins(route):
            part = [_units(target) for target in route[begin : begin + _MOST_SEGMENTS]]
            before = torch.zeros_like(self._chain) if first and begin == 0 else self._chain
            digest = _digest(torch.cat([*part, torch.zeros(0, 4, dtype=torch.int32)]), self._key)
            self._chain = _joined(digest[None], before[None])[0]
        if ticket:
            self._board.commit(ticket, struct.pack("<4i", *self._chain.tolist()))


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
    """What each lane holds after its share of the units: every `lanes`-th one."""
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
    """A lane's first state, as 32-bit words (two's complement, which adds and turns like unsigned ones)."""
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
