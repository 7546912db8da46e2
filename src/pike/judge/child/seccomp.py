"""The system call filter: two BPF programs, assembled by hand, and the call that installs them.

Knows the calls' numbers on x86-64 and aarch64. The first program holds from the start, the second
refuses programs and processes once the candidate is built. Every process and thread inherits both.
"""

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Iterable

_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NEW_NAMESPACE = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""
_X32_BIT = 0x40000000

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_CALLS = {  # name: (x86-64, aarch64)
    # other processes' memory and the kernel's own doors
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "kcmp": (312, 272),
    "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "syslog": (103, 116),
    # io_uring opens sockets and files without making the calls that this filter sees
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # the file system as others see it
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "swapon": (167, 224),
    "swapoff": (168, 225), "quotactl": (179, 60), "acct": (163, 89), "setns": (308, 268), "unshare": (272, 97),
    # the machine and its clock
    "reboot": (169, 142), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58),
    "sched_setscheduler": (144, 119), "sched_setattr": (314, 274), "sched_setparam": (142, 118),
    # what outlives a process
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180),
    # signals that come by themselves: one of them lets a stopped process go on
    "timer_create": (222, 107),
    # signals by thread id, which cannot be told from those to the judge's threads
    "tkill": (200, 130),
}  # fmt: skip
_ONLY_X86 = {"iopl": 172, "ioperm": 173}
_ON_A_PROCESS = {
    "kill": (62, 129), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
}  # fmt: skip
"""Calls whose first argument is a process id; refused on the guarded ones."""
_LIMITS = (302, 261)
"""`prlimit64`, allowed on the caller itself only: it takes the id of any thread of a process."""
_SIGNALS_OF_FILES = {(72, 25): (8, 10, 15), (16, 29): (0x8901, 0x8902)}
"""`fcntl` and `ioctl` with the operations that choose which signal a file sends, and to whom."""
_PRETENDED = {
    "sched_setaffinity": (203, 122), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "setsid": (112, 157), "setpgid": (109, 154),
}  # fmt: skip
"""Calls that seem to succeed and do nothing.

The judge decides on which CPUs a child runs and who goes first. A tree that stays in one process
group is stopped and killed at once, so that no process escapes by forking.
"""
_SOCKET, _CLONE, _CLONE3, _SECCOMP = (41, 198), (56, 220), (435, 435), (317, 277)
_PROGRAMS = {"execve": (59, 221), "execveat": (322, 281)}
_FORKS_OF_X86 = {"fork": 57, "vfork": 58}
_CLONE_THREAD = 0x00010000

_NO_NEW_PRIVILEGES = 38
_SET_FILTER, _ALL_THREADS = 1, 1


def supported() -> bool:
    """Whether there is a table for this machine and its kernel knows filters."""
    return platform.machine() in _ARCHITECTURES and os.path.exists("/proc/sys/kernel/seccomp/actions_avail")


def from_the_start(guarded: Iterable[int] = ()) -> bytes:
    """The program of the first phase.

    Args:
        guarded: process ids (negative ones for groups) that no signal and no limit may reach.
    """
    _, column = _machine()
    body = b"".join(_refuse(numbers[column]) for numbers in _CALLS.values())
    if column == 0:
        body += b"".join(_refuse(number) for number in _ONLY_X86.values())
    body += b"".join(_refuse(numbers[column], 0) for numbers in _PRETENDED.values())
    body += _refuse(_CLONE3[column], errno.ENOSYS)  # its flags lie in memory; the C library then takes clone
    body += _argument(_CLONE[column], [(_ANY_BIT, _NEW_NAMESPACE)])
    body += _argument(_LIMITS[column], [(_AT_LEAST, 1)])
    for numbers, operations in _SIGNALS_OF_FILES.items():
        body += _argument(numbers[column], [(_EQUAL, operation) for operation in operations], _SECOND_ARGUMENT)
    pids = [(_EQUAL, pid & 0xFFFFFFFF) for pid in guarded]
    if pids:
        body += b"".join(_argument(numbers[column], pids) for numbers in _ON_A_PROCESS.values())
    body += _only_local_sockets(_SOCKET[column])
    return _program(body)


def once_built() -> bytes:
    """The program of the second phase: no program starts and no process, threads do.

    `clone3` is refused from the start, so that the C library makes threads by `clone`.
    """
    _, column = _machine()
    refused = [numbers[column] for numbers in _PROGRAMS.values()]
    refused += _FORKS_OF_X86.values() if column == 0 else []
    body = b"".join(_refuse(number) for number in refused) + _refuse(_CLONE3[column], errno.ENOSYS)
    return _program(body + _argument(_CLONE[column], [(_ANY_BIT, _CLONE_THREAD)], allowed=True))


def install(program: bytes) -> None:
    """Put a filter on every thread of this process, for good.

    Raises:
        OSError: the kernel refused, or a thread has a filter of its own.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS) failed")
    code = ctypes.create_string_buffer(program, len(program))
    length = len(program) // _INSTRUCTION.size
    header = ctypes.create_string_buffer(struct.pack("@HP", length, ctypes.addressof(code)))
    _, column = _machine()
    done = libc.syscall(
        ctypes.c_long(_SECCOMP[column]), ctypes.c_long(_SET_FILTER), ctypes.c_long(_ALL_THREADS), ctypes.byref(header)
    )
    if done:
        raise OSError(ctypes.get_errno() if done < 0 else errno.EBUSY, "the system call filter was not installed")


def _machine() -> tuple[int, int]:
    return _ARCHITECTURES[platform.machine()]


def _program(body: bytes) -> bytes:
    """`body` for this architecture; refuses other ones, allows calls that it does not name."""
    architecture, column = _machine()
    head = _line(_LOAD, _ARCHITECTURE) + _line(_EQUAL, architecture, 1, 0) + _error(errno.EPERM) + _line(_LOAD, _NUMBER)
    if column == 0:
        head += _line(_AT_LEAST, _X32_BIT, 0, 1) + _error(errno.EPERM)
    return head + body + _line(_RETURN, _ALLOW)


def _refuse(number: int, code: int = errno.EPERM) -> bytes:
    return _line(_EQUAL, number, 0, 1) + _error(code)


def _argument(number: int, tests: list[tuple[int, int]], place: int = _FIRST_ARGUMENT, allowed: bool = False) -> bytes:
    """Refuse call `number` where a test holds for the low half of an argument.

    With `allowed`, refuse it where none holds.
    """
    held, otherwise = _error(errno.EPERM), _line(_RETURN, _ALLOW)
    if allowed:
        held, otherwise = otherwise, held
    inside = _line(_LOAD, place) + b"".join(_line(test, value, 0, 1) + held for test, value in tests) + otherwise
    return _line(_EQUAL, number, 0, len(inside) // _INSTRUCTION.size) + inside


def _only_local_sockets(number: int) -> bytes:
    inside = _line(_LOAD, _FIRST_ARGUMENT) + _line(_EQUAL, socket.AF_UNIX, 1, 0) + _error(errno.EPERM)
    inside += _line(_RETURN, _ALLOW)
    return _line(_EQUAL, number, 0, len(inside) // _INSTRUCTION.size) + inside


def _error(code: int) -> bytes:
    return _line(_RETURN, _ERRNO | code)


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, if_true, if_false, value)


if __name__ == "__main__":
    install(from_the_start())
    install(once_built())
