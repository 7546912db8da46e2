"""Child processes: started in a sandbox, spoken to over a socket, and certain to be gone afterwards.

Knows processes, environment, limits, logs and signals. Does not know what candidates are or when a verdict is
reached.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pike.evaluate.child.wire import NONCE_BYTES, Command, Up, receive_up, send_down
from pike.evaluate.sandbox import Cell, SandboxLevel

_LOG_HEAD_BYTES = 4_000
_LOG_TAIL_BYTES = 10_000
_MOST_FILE_BYTES = 8 << 30
_ALLOWED_ENVIRONMENT = (
    "PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CC", "CXX", "CUDA_HOME", "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "OMP_NUM_THREADS",
    "TRITON_INTERPRET", "TORCH_CUDA_ARCH_LIST",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """How one child is held.

    Attributes:
        level: the sandbox level.
        readable: files that the child must be able to read besides Python, torch and its own folder.
        cuda: whether it needs the GPU.
        memory_bytes: limit on host memory (address space), 0 for none; never enforced with CUDA, which reserves huge
            address ranges.
    """

    level: SandboxLevel
    readable: tuple[str, ...]
    cuda: bool
    memory_bytes: int = 0


class _Tail:
    """Keeps the head and the tail of a stream, reading all of it so that the writer never blocks."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._head, self._tail, self._lost = stream, b"", b"", 0
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(self._stream.fileno(), 65536):
                room = _LOG_HEAD_BYTES - len(self._head)
                self._head += part[: max(room, 0)]
                kept = self._tail + part[max(room, 0) :]
                self._lost += max(len(kept) - _LOG_TAIL_BYTES, 0)
                self._tail = kept[-_LOG_TAIL_BYTES:]

    def text(self, wait_seconds: float = 0.05) -> str:
        """What was written so far; waits shortly, because the child's last words may still be in the pipe."""
        self._thread.join(wait_seconds)
        gap = f"\n[... {self._lost} bytes left out ...]\n".encode() if self._lost else b""
        return (self._head + gap + self._tail).decode(errors="replace")


class Child:
    """One child process in its own folder, which is removed with it."""

    def __init__(self, plan: ChildPlan) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=folder_prefix()))
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._seq = 0
        ours, theirs = socket.socketpair()
        self._sock = ours
        memory = 0 if plan.cuda else plan.memory_bytes
        argv = [
            sys.executable,
            "-P",
            "-u",
            "-m",
            "pike.evaluate.child",
            str(theirs.fileno()),
            self._nonce.hex(),
            str(memory),
        ]
        cell = Cell(str(self.folder), (*_python_places(), *plan.readable), plan.cuda)
        self._process = subprocess.Popen(
            plan.level.command(cell, [*argv, str(_MOST_FILE_BYTES)]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=_environment(self.folder),
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        assert self._process.stdout is not None and self._process.stderr is not None
        self._logs = (("stdout", _Tail(self._process.stdout)), ("stderr", _Tail(self._process.stderr)))

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group."""
        return self._process.pid

    def order(
        self, command: Command, body: Any, deadline: float, fds: tuple[int, ...], on_wait: Callable[[], float]
    ) -> Up:
        """Send a command and wait for its answer.

        Args:
            command: what to do.
            body: its pickled body.
            deadline: on `time.monotonic`'s clock.
            fds: descriptors that travel with it.
            on_wait: see `child.wire.receive_up`.

        Raises:
            WireClosed, WireTimeout, WireViolation: see `child.wire`.
        """
        self.send(command, body, fds)
        return self.receive(deadline, on_wait)

    def send(self, command: Command, body: Any = None, fds: tuple[int, ...] = ()) -> None:
        """Send a command; its answer is fetched with `receive`.

        Raises:
            WireClosed: the child is gone.
        """
        self._seq += 1
        send_down(self._sock, command, self._seq, body, fds)

    def receive(self, deadline: float, on_wait: Callable[[], float] = lambda: 0.0) -> Up:
        """The answer to the last command; see `child.wire.receive_up`.

        Raises:
            WireClosed, WireTimeout, WireViolation: see `child.wire`.
        """
        return receive_up(self._sock, self._nonce, self._seq, deadline, on_wait)

    def freeze(self) -> None:
        """Stop the child and all that descend from it, so that they are quiet while something else is timed."""
        self._signal_tree(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen child go on."""
        self._signal_tree(signal.SIGCONT)

    def _signal_tree(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        for pid in _descendants_of(self.pid):  # compilers and whatever else left the process group
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def ending(self) -> str:
        """How the process ended, in words, waiting shortly for it."""
        try:
            code = self._process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            return "closed its channel"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        if code > 128 and code - 128 in signal.valid_signals():
            return f"was killed by {signal.Signals(code - 128).name}"
        return f"exited with code {code}"

    def log(self) -> str:
        """Both streams, each with its head and its last 10,000 bytes."""
        parts = [f"--- {name} ---\n{text}" for name, tail in self._logs if (text := tail.text().strip())]
        return "\n".join(parts)

    def kill(self) -> None:
        """Kill the process group, wait for it and remove its folder; may be called again."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._sock.close()
        for _, tail in self._logs:
            tail.text()
        shutil.rmtree(self.folder, ignore_errors=True)


def folder_prefix() -> str:
    """How temporary folders of this process are called, so that `sweep` knows whose they are."""
    return f"pike-{os.getpid()}-"


def sweep() -> None:
    """Remove temporary folders that a judge which no longer lives left behind."""
    for path in Path(tempfile.gettempdir()).glob("pike-*-*"):
        owner = path.name.split("-")[1]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(path, ignore_errors=True)


def become_subreaper() -> None:
    """Make orphans of our children ours, so that `kill_strays` finds them; for a process that owns its children."""
    pr_set_child_subreaper = 36
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def kill_strays(keep: set[int]) -> int:
    """Kill every child of this process that is not in `keep` (orphans of a candidate that left its group).

    Returns:
        How many were killed.
    """
    killed = 0
    deadline = time.monotonic() + 5.0
    while (strays := _children().get(os.getpid(), set()) - keep) and time.monotonic() < deadline:
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
            killed += 1
    return killed


def _children() -> dict[int, set[int]]:
    """Every process of the machine under its parent."""
    found: dict[int, set[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, IndexError):
                stat = Path(f"/proc/{entry}/stat").read_text()
                found.setdefault(int(stat.rpartition(")")[2].split()[1]), set()).add(int(entry))
    return found


def _descendants_of(ancestor: int) -> set[int]:
    children, found, frontier = _children(), set[int](), {ancestor}
    while frontier:
        frontier = {child for pid in frontier for child in children.get(pid, ())} - found
        found |= frontier
    return found


def search_path() -> str:
    """PATH with this Python's own programs first (ninja lives there)."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def _python_places() -> tuple[str, ...]:
    package = str(Path(__file__).parents[1])
    paths = [path for path in sys.path if path and os.path.isdir(path)]
    return tuple(dict.fromkeys([sys.prefix, sys.base_prefix, *paths, package]))


def _environment(folder: Path) -> dict[str, str]:
    """An allow-list; every cache and home lies in the child's own folder, so nothing survives it."""
    kept = {name: os.environ[name] for name in _ALLOWED_ENVIRONMENT if name in os.environ}
    caches = folder / "caches"
    for part in ("tmp", "inductor", "triton", "extensions", "cuda"):
        (caches / part).mkdir(parents=True)
    cores = len(os.sched_getaffinity(0))
    return kept | {
        "PATH": search_path(),
        "HOME": str(folder),
        "TMPDIR": str(caches / "tmp"),
        "XDG_CACHE_HOME": str(caches / "tmp"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path and os.path.isdir(path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        # Whether glibc hands freed buffers back to the system after each call is settled by chance, process by
        # process, and costs up to a quarter of a call; both sides keep theirs.
        "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
        "PYTHONSAFEPATH": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": str(min(cores, 8) if cores >= 8 else 1),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TORCH_EXTENSIONS_DIR": str(caches / "extensions"),
        "CUDA_CACHE_PATH": str(caches / "cuda"),
    }
