"""Start a trivial container and look at its channel, its environment, its process and its root.

Knows what is tried. Does not know which engine it is, or what a container is for.
"""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from pike.judge import processes
from pike.judge.sandbox.level import CHANNEL, SandboxSpec

_SECONDS = 20.0
_PEER = struct.Struct("=iII")
_INSIDE = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as judge:
    judge.connect(sys.argv[1])
    try:
        open("/probe", "w")
        judge.sendall(b"may write to its root")
    except OSError:
        judge.sendall(os.environ.get("PIKE", "lacks its environment").encode())
    judge.recv(1)
"""


def failure(wrapped: Callable[[SandboxSpec, list[str]], list[str]], end: Callable[[SandboxSpec], None]) -> str:
    """Why a container with this `command` and `end` of a level fails, empty if it works."""
    with tempfile.TemporaryDirectory(prefix=f"pike-{os.getpid()}-") as folder:
        for part in ("tmp", "shm"):
            os.makedirs(os.path.join(folder, "caches", part))
        spec = SandboxSpec(folder, (), False, environment=(("PIKE", "inside"),), memory_bytes=1 << 30, tasks=64)
        address = os.path.join(folder, CHANNEL)
        argv = wrapped(spec, [sys.executable, "-I", "-S", "-c", _INSIDE, address])
        try:
            return _spoken(argv, address)
        except OSError as error:
            return f"its channel breaks: {error}"
        finally:
            end(spec)


def _spoken(argv: list[str], address: str) -> str:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(1)
        with subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as started:
            try:
                sock = _connected(listener, started)
                if sock is None:
                    return _failed(started)
                with sock:
                    why = _strange(sock)
                code = started.wait(timeout=_SECONDS)
                return why or (f"a trivial container ends with code {code}" if code else "")
            except (subprocess.TimeoutExpired, TimeoutError):
                return f"a trivial container takes more than {_SECONDS:g} seconds"
            finally:
                started.terminate()


def _connected(listener: socket.socket, started: subprocess.Popen[str]) -> socket.socket | None:
    listener.settimeout(0.05)
    deadline = time.monotonic() + _SECONDS
    while started.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(TimeoutError):
            return listener.accept()[0]
    return None


def _failed(started: subprocess.Popen[str]) -> str:
    said = started.communicate(timeout=0.5)[1].strip()[-200:]
    return said or f"a trivial container ends with code {started.returncode}"


def _strange(sock: socket.socket) -> str:
    """What is wrong with the process that connected, by the kernel's word and then its own."""
    sock.settimeout(_SECONDS)
    pid, user, _ = _PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if pid == 0 or len(processes.held(pid).numbers) <= len(processes.held(os.getpid()).numbers):
        return "its processes are not to be seen from here"
    if user != os.geteuid():
        return f"its processes run as user {user} and not as {os.geteuid()}"
    said = sock.recv(100).decode(errors="replace")
    return "" if said == "inside" else f"a trivial container {said or 'says nothing'}"
