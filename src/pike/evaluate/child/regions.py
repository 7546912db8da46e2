"""Memory that judge and child share: a memfd on a CPU, an exported allocation on a GPU.

Knows how to make a region, hand it over as a file descriptor and map it again as one uint8 tensor. Does not know what
lies in it (`layout`).
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Protocol

import torch


class Region(Protocol):
    """A range of bytes that two processes see."""

    tensor: torch.Tensor
    """All of it, as uint8 on the device."""
    fd: int | None
    """What the other process needs, None once handed over or attached."""
    nbytes: int

    def close(self) -> None:
        """Give the memory back; tensors over it must not be used afterwards."""
        ...


class HostRegion:
    """A region in host memory, behind an anonymous file."""

    def __init__(self, fd: int, nbytes: int) -> None:
        self.fd: int | None = fd
        self.nbytes = nbytes
        self._map = mmap.mmap(fd, nbytes)
        self.tensor = torch.frombuffer(self._map, dtype=torch.uint8)

    @classmethod
    def allocate(cls, nbytes: int) -> HostRegion:
        """A new region of at least `nbytes` bytes, zeroed, rounded up to whole pages."""
        size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        fd = os.memfd_create("pike", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        # Whoever holds the descriptor could shrink the file, and the other side's next access would be fatal.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return cls(fd, size)

    def close(self) -> None:
        """Close the descriptor; the mapping goes with its last tensor."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def allocate(nbytes: int, device: torch.device) -> Region:
    """A new shared region on `device`, to be attached by another process through its `fd`."""
    if device.type == "cuda":
        from pike.evaluate.child.cuda_vmm import SharedMemory

        return SharedMemory.allocate(nbytes, device.index or 0)
    return HostRegion.allocate(nbytes)


def attach(fd: int, nbytes: int, device: torch.device) -> Region:
    """The region behind a received descriptor; `nbytes` is the owner's `Region.nbytes`."""
    if device.type == "cuda":
        from pike.evaluate.child.cuda_vmm import SharedMemory

        return SharedMemory.attach(fd, nbytes, device.index or 0)
    return HostRegion(fd, nbytes)
