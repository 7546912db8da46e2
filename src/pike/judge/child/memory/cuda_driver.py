"""Calls into the CUDA driver through ctypes, and GPU memory that two processes share by its means.

Legacy CUDA IPC does not cross PID namespaces (ADR 0004). Does not know what lies in the memory.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import torch

_OUT_OF_MEMORY = 2
_POSIX_FD = 1
_PINNED = 1
_ON_DEVICE = 1
_READ_WRITE = 3


class CudaDriverError(RuntimeError):
    """A CUDA driver call failed; the message names the call and the driver's error number."""

    def __init__(self, name: str, code: int) -> None:
        words = "CUDA error: out of memory" if code == _OUT_OF_MEMORY else f"CUDA error {code}"
        super().__init__(f"{name} failed with {words}")


@functools.cache
def driver() -> ctypes.CDLL:
    """The driver's library; its calls refer to the context that torch made current."""
    return ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: Any) -> None:
    """Call a function of the driver with ctypes values, in the order of its documentation.

    Raises:
        CudaDriverError: it returned anything but success.
    """
    code = getattr(driver(), name)(*arguments)
    if code:
        raise CudaDriverError(name, code)


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Flags(ctypes.Structure):
    _fields_ = (
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )


class _Prop(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", _Flags),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class SharedMemory:
    """A range of device memory mapped into this process; `tensor` is a uint8 view of all of it.

    Create it with `allocate` in one process, send its `fd` over a Unix socket, and `attach` in the
    other. Both sides keep their mapping until `close`.
    """

    def __init__(self, handle: int, nbytes: int, device_index: int, fd: int | None) -> None:
        self.fd = fd
        self.nbytes = nbytes
        self._handle = handle
        self._address = ctypes.c_uint64(0)
        call("cuMemAddressReserve", ctypes.byref(self._address), ctypes.c_size_t(nbytes), ctypes.c_size_t(0),
              ctypes.c_uint64(0), ctypes.c_ulonglong(0))  # fmt: skip
        call("cuMemMap", self._address, ctypes.c_size_t(nbytes), ctypes.c_size_t(0), ctypes.c_uint64(handle),
              ctypes.c_ulonglong(0))  # fmt: skip
        access = _Access(_Location(_ON_DEVICE, device_index), _READ_WRITE)
        call("cuMemSetAccess", self._address, ctypes.c_size_t(nbytes), ctypes.byref(access), ctypes.c_size_t(1))
        self.tensor = self._view(device_index)

    @classmethod
    def allocate(cls, nbytes: int, device_index: int) -> SharedMemory:
        """Allocate at least `nbytes` bytes on a device and export them as a file descriptor.

        Raises:
            CudaDriverError: the device is out of memory or cannot export.
        """
        torch.zeros(1, device=f"cuda:{device_index}")  # makes torch's primary context current
        prop = _Prop(_PINNED, _POSIX_FD, _Location(_ON_DEVICE, device_index), None, _Flags())
        granularity = ctypes.c_size_t(0)
        call("cuMemGetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(prop), ctypes.c_int(0))
        size = -(-nbytes // granularity.value) * granularity.value
        handle, fd = ctypes.c_uint64(0), ctypes.c_int(-1)
        create = ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(prop), ctypes.c_ulonglong(0)
        try:
            call("cuMemCreate", *create)
        except CudaDriverError:
            torch.cuda.empty_cache()  # torch keeps unused memory
            call("cuMemCreate", *create)
        call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, ctypes.c_int(_POSIX_FD), ctypes.c_ulonglong(0))
        return cls(handle.value, size, device_index, fd.value)

    @classmethod
    def attach(cls, fd: int, nbytes: int, device_index: int) -> SharedMemory:
        """Map what another process exported; takes ownership of `fd`.

        Raises:
            CudaDriverError: the descriptor is no CUDA allocation of this device.
        """
        torch.zeros(1, device=f"cuda:{device_index}")
        handle = ctypes.c_uint64(0)
        call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), ctypes.c_int(_POSIX_FD))
        os.close(fd)
        return cls(handle.value, nbytes, device_index, None)

    def close(self) -> None:
        """Unmap and release, once nothing that was queued uses it; its tensors must not be used afterwards."""
        torch.cuda.synchronize(self.tensor.device)
        call("cuMemUnmap", self._address, ctypes.c_size_t(self.nbytes))
        call("cuMemAddressFree", self._address, ctypes.c_size_t(self.nbytes))
        call("cuMemRelease", ctypes.c_uint64(self._handle))
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def _view(self, device_index: int) -> torch.Tensor:
        class Range:
            __cuda_array_interface__ = {  # noqa: RUF012
                "shape": (self.nbytes,),
                "typestr": "|u1",
                "data": (self._address.value, False),
                "version": 3,
            }

        return torch.as_tensor(Range(), device=f"cuda:{device_index}")
