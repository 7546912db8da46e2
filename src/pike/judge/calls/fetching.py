"""A child held still, and its outputs read from its own memory.

Knows how the kernel stops a process and reads another one. A stopped process sees no input before
the clock starts and changes no output after it stopped. Does not know what is read.
"""

import contextlib
import ctypes
import errno
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from pike.core.verdict.evaluation import Status
from pike.judge.refusal import Refused

_STOPPING_SECONDS = 5.0
_AT_REST = "TtZXx"
_libc = ctypes.CDLL(None, use_errno=True)


class _Part(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


@contextlib.contextmanager
def held(pid: int) -> Iterator[None]:
    """A context in which no thread of a process runs; one that is gone stands still anyway.

    Raises:
        Refused: a thread goes on running.
    """
    try:
        _signal(pid, signal.SIGSTOP)
        deadline = time.monotonic() + _STOPPING_SECONDS
        while not _at_rest(pid):
            if time.monotonic() > deadline:
                raise Refused(Status.UNTRUSTED_TIMING, "a thread of the candidate does not stop when it is told to")
        yield
    finally:
        _signal(pid, signal.SIGCONT)


def can_read(pid: int) -> bool:
    """Whether the kernel lets this process read the memory of another."""
    return _read(pid, 0, 0, 1) > 0 or ctypes.get_errno() == errno.EFAULT  # nothing lies at address 0


def fetch(pid: int, address: int, into: torch.Tensor) -> None:
    """Read another process's memory into a contiguous tensor of this one.

    Raises:
        Refused: no memory lies there.
    """
    done = 0
    while done < into.nbytes:
        found = _read(pid, address + done, into.data_ptr() + done, into.nbytes - done)
        if found <= 0:
            raise Refused(Status.BAD_CONTRACT, "an output does not lie in memory that can be read")
        done += found


def _read(pid: int, address: int, into: int, nbytes: int) -> int:
    ours, theirs = _Part(into, nbytes), _Part(address & (2**64 - 1), nbytes)
    return int(_libc.process_vm_readv(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0))


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _at_rest(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if Path(f"/proc/{pid}/task/{task}/stat").read_text().rpartition(")")[2].split()[0] not in _AT_REST:
                    return False
    return True
