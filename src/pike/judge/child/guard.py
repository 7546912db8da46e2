"""What keeps a process from others and no system call filter can see: memory, capabilities, files.

Knows the kernel's switches and its Landlock. Does not know which process is which.
"""

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable

_SET_DUMPABLE, _DROP_FROM_BOUNDING_SET, _NO_NEW_PRIVILEGES = 4, 24, 38
_CAPABILITIES_VERSION, _CAPABILITIES = 0x20080522, 64
_READ_ANY_FILE, _PTRACE = 2, 19
_HEADER, _SETS = struct.Struct("=Ii"), struct.Struct("=6I")
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_LEAST_VERSION = 6
"""Of Landlock: the first, in Linux 6.12, that keeps signals inside."""
_RULESET, _RULE, _BENEATH = struct.Struct("=QQQ"), struct.Struct("=Qi"), 1
_ON_FILES = 1 << 1 | 1 << 14
_WRITING = _ON_FILES | sum(1 << bit for bit in range(4, 14))
"""Open for writing and truncate; and in folders: make, remove and move whatever there is."""
_NEITHER_SOCKETS_NOR_SIGNALS = 3
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")


def close_memory(closed: bool = True) -> None:
    """Keep processes of the same user out of this one's memory, or let them in again.

    A fork inherits the state, a new program does not. Children of root need `give_up_root` too.
    """
    ctypes.CDLL(None).prctl(_SET_DUMPABLE, int(not closed), 0, 0, 0)


def give_up_root() -> bool:
    """Give up all capabilities but to read any file, for good and for all descendants.

    A process that keeps more is closed to those without it. Returns whether root's right to other
    processes' memory was among them.
    """
    libc = ctypes.CDLL(None)
    for capability in set(range(_CAPABILITIES)) - {_READ_ANY_FILE}:
        libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
    header = ctypes.create_string_buffer(_HEADER.pack(_CAPABILITIES_VERSION, 0))
    sets = ctypes.create_string_buffer(_SETS.size)
    had = False
    if libc.capget(header, sets) == 0:
        words = _SETS.unpack_from(sets)  # effective, permitted and inheritable, then their upper halves
        had = bool(words[0] & (1 << _PTRACE))
        lower = (word & (1 << _READ_ANY_FILE) for word in words[:3])
        libc.capset(header, ctypes.create_string_buffer(_SETS.pack(*lower, 0, 0, 0)))
    return had


def confines() -> bool:
    """Whether this kernel knows `confine`."""
    return int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, 1)) >= _LEAST_VERSION


def confine(writable: Iterable[str]) -> None:
    """Let this thread and its descendants write here and to `_DEVICES`, and signal each other only.

    Abstract sockets of others are out of reach as well. Does nothing where `confines` is false.
    """
    if not confines():
        return
    libc = ctypes.CDLL(None)
    ruleset = libc.syscall(_CREATE_RULESET, _RULESET.pack(_WRITING, 0, _NEITHER_SOCKETS_NOR_SIGNALS), _RULESET.size, 0)
    for path in (*writable, *(f"/dev/{name}" for name in _DEVICES)):
        with contextlib.suppress(FileNotFoundError):
            place = os.open(path, os.O_PATH)
            rights = _WRITING if os.path.isdir(path) else _ON_FILES
            libc.syscall(_ADD_RULE, ruleset, _BENEATH, _RULE.pack(rights, place), 0)
            os.close(place)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
