"""Encrypted inputs and committed outputs, so that the judge need not touch the device to start or
stop its clock.

`decrypt` removes a key stream from an input; without the key the input is noise. `commit` copies
outputs to the judge's memory and digests their bytes with the key. After it has published a digest,
a child can no longer change the bytes. The permutation behind both has 256 bits, and an attacker
controls half of them, so another output with the same digest takes 2^64 tries. Judge and child
both run this module, and only the judge's own result is believed. Does not know when a call
begins (`control_page`) or what the bytes mean.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from pike.judge.child.memory.control_page import COMMITMENT_OFFSET, GO_OFFSET
from pike.judge.child.memory.cuda_driver import CudaDriverError, call, driver

_LANES, _MOST_BLOCKS, _UNITS_A_LANE = 128, 1056, 2
_MOST_SEGMENTS = 8
_UNIT_BYTES = 16
_DECRYPT_BYTES = 32
_THREADS = 256
KERNELS = ("pike_await_key", "pike_decrypt", "pike_commit")
"""The names of the kernels in `cipher.cu`, which profiles show too."""


def blocks_for(units: int) -> int:
    """The number of blocks for so many units of 16 bytes; part of the digest's definition."""
    return max(1, min(_MOST_BLOCKS, -(-units // (_LANES * _UNITS_A_LANE))))


class _Segment(ctypes.Structure):
    _fields_ = (("source", ctypes.c_uint64), ("target", ctypes.c_uint64), ("bytes", ctypes.c_uint64))


class _Order(ctypes.Structure):
    _fields_ = (
        ("at", _Segment * _MOST_SEGMENTS),
        ("units", ctypes.c_uint64),
        ("ticket", ctypes.c_uint64),
        ("scratch", ctypes.c_uint64),
        ("page", ctypes.c_uint64),
        ("segments", ctypes.c_uint32),
        ("first", ctypes.c_uint32),
    )


class _Numbers:
    """Kernel arguments of 64 bits each."""

    def __init__(self, *values: int) -> None:
        count = len(values)
        self._values = (ctypes.c_uint64 * count)(*values)
        start = ctypes.addressof(self._values)
        self.arguments = (ctypes.c_void_p * count)(*(start + 8 * index for index in range(count)))


class _Launch:
    """Up to eight outputs that one launch commits; only the sources are filled in later."""

    def __init__(self, to: Sequence[torch.Tensor], scratch: int, page: int) -> None:
        self.to = to
        self.order = _Order(scratch=scratch, page=page, segments=len(to))
        for segment, target in zip(self.order.at, to, strict=False):
            segment.target, segment.bytes = target.data_ptr(), target.nbytes
            self.order.units += -(-target.nbytes // _UNIT_BYTES)
        self.segments = list(self.order.at)
        self.blocks = blocks_for(self.order.units)
        self.arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.order))

    def read_from(self, leaves: Sequence[torch.Tensor]) -> None:
        """Fill in the sources; outputs that a kernel cannot read directly are copied first."""
        for segment, leaf, target in zip(self.segments, leaves, self.to, strict=False):
            address = leaf.data_ptr()
            if address % _UNIT_BYTES or not _is_plain(leaf, target):
                target.copy_(leaf)
                address = segment.target
            segment.source = address


class CudaCipher:
    """Locks on a GPU, by kernels on the current stream."""

    def __init__(self, kernels: bytes, device: torch.device, page_address: int) -> None:
        """Load `kernels` (a cubin of `cipher.cu`) into the current context.

        `page_address` is where the device sees the control page. Raises `CudaDriverError` where the
        kernels do not load.
        """
        self._device, self._index = device, device.index or 0
        self._scratch = torch.zeros(12 + 4 * _MOST_BLOCKS, dtype=torch.int32, device=device)
        self._address = self._scratch.data_ptr()
        self._page = page_address
        module = ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(module), kernels)
        self._await, self._decrypt, self._commit = (_function(module, name.encode()) for name in KERNELS)

    def set_key(self, key: bytes) -> None:
        """Use this key (16 bytes) from now on."""
        self._scratch[:4].copy_(torch.frombuffer(bytearray(key), dtype=torch.int32))

    def await_key(self, ticket: int) -> None:
        """Let the stream wait until this call begins, and take the key from the control page."""
        numbers = _Numbers(self._page + GO_OFFSET, ticket, self._address)
        self._launch(self._await, 1, 1, numbers.arguments)

    def decrypt(self, encrypted: torch.Tensor, real: torch.Tensor) -> None:
        """Remove the key stream; doing it twice gives the original.

        Args:
            encrypted: uint8, a multiple of 256 bytes.
            real: where the result goes, of the same size; may be `encrypted`.
        """
        units = encrypted.numel() // _DECRYPT_BYTES
        numbers = _Numbers(encrypted.data_ptr(), real.data_ptr(), units, self._address)
        self._launch(self._decrypt, min(-(-units // _THREADS), 4 * _MOST_BLOCKS), _THREADS, numbers.arguments)

    def route(self, to: Sequence[torch.Tensor]) -> list[_Launch]:
        """What `commit` takes to send outputs to these contiguous tensors."""
        page = self._page + COMMITMENT_OFFSET
        begins = range(0, len(to), _MOST_SEGMENTS) or (0,)
        return [_Launch(to[begin : begin + _MOST_SEGMENTS], self._address, page) for begin in begins]

    def commit(self, leaves: Sequence[torch.Tensor], route: list[_Launch], ticket: int, first: bool) -> None:
        """Copy outputs along a route and digest them.

        Args:
            leaves: tensors of the same shapes and dtypes as the route's, or those very tensors.
            route: from `route`.
            ticket: published with the digest; 0 to publish nothing yet.
            first: whether a new digest begins, instead of one that continues the last.
        """
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


def _is_plain(leaf: torch.Tensor, target: torch.Tensor) -> bool:
    return leaf.is_contiguous() and leaf.device == target.device and not (leaf.is_conj() or leaf.is_neg())


def _function(module: ctypes.c_void_p, name: bytes) -> ctypes.c_void_p:
    function = ctypes.c_void_p()
    call("cuModuleGetFunction", ctypes.byref(function), module, name)
    return function


def device_address(page: torch.Tensor) -> int:
    """Make a page of host memory visible to the GPU of the current context; returns its address
    there.

    Raises:
        CudaDriverError: the memory cannot be pinned.
    """
    mapped, found = ctypes.c_uint(2), ctypes.c_uint64(0)
    call("cuMemHostRegister_v2", ctypes.c_void_p(page.data_ptr()), ctypes.c_size_t(page.numel()), mapped)
    call("cuMemHostGetDevicePointer_v2", ctypes.byref(found), ctypes.c_void_p(page.data_ptr()), ctypes.c_uint(0))
    return found.value
