"""A process that has imported torch once and forks children from itself.

Started as `python -m pike.judge.child.template SOCKET`. It holds no secret, begins no driver and
never runs a candidate. Does not know what a child does (`__main__`).
"""

import ctypes
import json
import os
import socket
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pike.judge.child import guard

PRELOAD = {False: b"preload", True: b"preload for a CPU"}
"""Asks the template to `preload`, by whether it is for a CPU; the template answers nothing."""

_MOST_BYTES = 1 << 20
_CUDA_FILES, _OTHER_FILES = ("/dev/nvidia",), ("/dev/dri", "/dev/kfd")
_CUDA_NOT_BEGUN = 3


@dataclass(frozen=True, slots=True)
class ForkOrder:
    """What a new child starts with; its stdout, stderr and channel come along as descriptors.

    Attributes:
        judge: the process id of the judge, which adopts the child.
        arguments: those of `pike.judge.child` after the channel.
        environment: all of its environment variables.
        folder: its working directory.
    """

    judge: int
    arguments: tuple[str, ...]
    environment: dict[str, str]
    folder: str

    def encoded(self) -> bytes:
        """The message that carries the order."""
        return json.dumps(asdict(self)).encode()


def main() -> None:
    """Fork a child for each order until the judge is gone; in a child, serve the judge."""
    # These import torch, which the judge must not wait for to know `ForkOrder`.
    from pike.judge.child import __main__ as child
    from pike.judge.child.stub import preload

    child.die_with_parent()
    guard.close_memory()
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork")
    control = socket.socket(fileno=int(sys.argv[1]))
    template, given = os.getpid(), os.environ.get("PYTHONPATH", "").split(os.pathsep)
    own_path = [path for path in sys.path if path not in given]
    folder, captured = tempfile.gettempdir(), list[tuple[dict[str, Any], str]]()
    while True:
        message, fds, _, _ = socket.recv_fds(control, _MOST_BYTES, 3)
        if not message:
            return
        if message in PRELOAD.values():
            preload(message == PRELOAD[True])
            captured = _constants_below(folder)
            continue
        order = ForkOrder(**json.loads(message))
        pid = 0 if driver_has_begun() else _fork(order.judge)
        if pid is None:
            control.close()
            for names, name in captured:
                names[name] = names[name].replace(folder, order.environment["TMPDIR"], 1)
            _become(order, fds, own_path)
            child.main(template)
            return
        for fd in fds:
            os.close(fd)
        control.send(str(pid).encode())


def driver_has_begun() -> bool:
    """Whether this process holds a driver's state, which no fork survives: the judge starts the child then.

    Importing PyTorch's compilers counts GPUs by NVML, which opens their files. It does not begin CUDA.
    """
    if open_files(_OTHER_FILES):
        return True
    if not open_files(_CUDA_FILES):
        return False
    try:
        answer = ctypes.CDLL("libcuda.so.1").cuDeviceGetCount(ctypes.byref(ctypes.c_int()))
    except OSError:
        return True
    return bool(answer != _CUDA_NOT_BEGUN)


def open_files(prefixes: tuple[str, ...]) -> list[str]:
    """The files that this process has open whose paths begin so."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [name for name in found if name.startswith(prefixes)]


def _constants_below(folder: str) -> list[tuple[dict[str, Any], str]]:
    """Constants of modules that name a path in the template's temporary folder.

    In a child they must lie in its own: PyTorch keeps compiled headers in such a place.
    """
    found = ((vars(module), name) for module in [*sys.modules.values()] for name in [*getattr(module, "__dict__", ())])
    return [(names, name) for names, name in found if type(names[name]) is str and names[name].startswith(folder)]


def _fork(judge: int) -> int | None:
    """Fork twice, so that the judge adopts the child. Its process id, None in the child itself."""
    reading, writing = os.pipe()
    middle = os.fork()
    if middle:
        os.close(writing)
        with open(reading, "rb") as pipe:
            pid = int(pipe.read())
        os.waitpid(middle, 0)
        return pid
    os.close(reading)
    middle, pid = os.getpid(), os.fork()
    if pid:
        os.write(writing, str(pid).encode())
        os._exit(0)
    os.close(writing)
    while os.getppid() == middle:
        time.sleep(0.0002)
    if os.getppid() != judge:
        os._exit(1)
    return None


def _become(order: ForkOrder, fds: list[int], own_path: list[str]) -> None:
    """Take over the child's own streams, folder, environment, import path and session."""
    os.setsid()
    for fd, stream in zip(fds[:2], (1, 2), strict=True):
        os.dup2(fd, stream)
        os.close(fd)
    os.environ.clear()
    os.environ.update(order.environment)
    given = [path for path in os.environ["PYTHONPATH"].split(os.pathsep) if path not in own_path]
    sys.path[:] = [*given, *own_path]
    tempfile.tempdir = None
    os.chdir(order.folder)
    sys.modules["__main__"] = sys.modules["pike.judge.child.__main__"]
    sys.argv[1:] = [str(fds[2]), *order.arguments]


if __name__ == "__main__":
    main()
