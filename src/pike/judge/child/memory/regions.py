"""Memory that judge and child share: a memfd on a CPU, an exported allocation on a GPU.

Knows how to make, pass on and map a region. Does not know what lies in it (`layout`).
"""

from __future__ import annotations

import fcntl
import mmap
import os

import torch

from pike.judge.child.memory.cuda_driver import SharedMemory


class HostRegion:
    """A region in host memory, behind an anonymous file.

    Attributes:
        fd: the descriptor that the other process needs.
        nbytes: how large it is.
        tensor: all of it, as uint8.
    """

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
        # Without seals either side could shrink the file, and the next access of the other would be fatal.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return cls(fd, size)

    def close(self) -> None:
        """Close the descriptor; the mapping goes with its last tensor."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


Region = HostRegion | SharedMemory
"""A range of bytes that two processes see."""


def allocate(nbytes: int, device: torch.device) -> Region:
    """A new shared region on `device`, to be attached by another process through its `fd`."""
    if device.type == "cuda":
        return SharedMemory.allocate(nbytes, device.index or 0)
    return HostRegion.allocate(nbytes)


def attach(fd: int, nbytes: int, device: torch.device) -> Region:
    """The region behind a received descriptor; `nbytes` is the owner's `Region.nbytes`."""
    if device.type == "cuda":
        return SharedMemory.attach(fd, nbytes, device.index or 0)
    return HostRegion(fd, nbytes)
