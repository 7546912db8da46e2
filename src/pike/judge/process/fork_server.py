"""The judge's end of the template (`child.template`), from which children are forked.

Importing torch costs more than judging a small candidate, so one process does it for all children.
Knows how the template is started and asked. Does not import torch, and does not know what children
are for.
"""

import contextlib
import functools
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from pike.judge.child.template import PRELOAD, ForkOrder
from pike.judge.process.environment import shared_environment
from pike.judge.process.leftovers import folder_prefix, remove
from pike.judge.processes import become_subreaper

_START_SECONDS = 120.0


class ForkedProcess:
    """A child of this process that the template made; behaves like `subprocess.Popen`."""

    def __init__(self, pid: int, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self.pid, self.stdout, self.stderr = pid, stdout, stderr
        self._code: int | None = None
        self._handle = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        if self._code is None:
            try:
                ended, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # `kill_strays` took it
                ended, status = self.pid, int(signal.SIGKILL)
            if ended:
                self._code = os.waitstatus_to_exitcode(status)
                os.close(self._handle)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """How it ended.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        if self.poll() is None:
            select.select([self._handle], [], [], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("a child", timeout or 0.0)
        return code

    def kill(self) -> None:
        """Kill it if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class ForkServer:
    """One template, replaced if it dies or if what all children share changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._template: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._terms: dict[str, str] = {}
        self._folder: Path | None = None

    @property
    def pids(self) -> set[int]:
        """The template's process."""
        return {self._template.pid} if self._template else set()

    def start(self) -> None:
        """Begin to start the template; returns at once."""
        environment = shared_environment()
        terms = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
        if self._template and self._template.poll() is None and terms == self._terms:
            return
        self.close()
        become_subreaper()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_START_SECONDS)
        self._folder = Path(tempfile.mkdtemp(prefix=folder_prefix()))
        self._template = subprocess.Popen(
            [sys.executable, "-P", "-u", "-m", "pike.judge.child.template", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            cwd="/",
            # Neither may touch the machine before the fork: a driver's state or a pool of workers does not survive it.
            env=environment
            | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "TORCH_WARM_POOL": "0", "TMPDIR": str(self._folder)},
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        self._terms = terms

    def preload(self, for_cpu: bool) -> None:
        """Let the template load PyTorch's compilers before its next child; returns at once."""
        with self._lock, contextlib.suppress(OSError):
            self.start()
            assert self._control is not None
            self._control.send(PRELOAD[for_cpu])

    def fork(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, channel: int
    ) -> ForkedProcess | None:
        """A new child of this process (`ForkOrder`), None if the template cannot make one.

        `channel` is the descriptor of its end of the wire.
        """
        order = ForkOrder(os.getpid(), tuple(arguments), dict(environment), str(folder))
        ends = [os.pipe(), os.pipe()]
        reading = [open(end, "rb") for end, _ in ends]  # noqa: SIM115 - the child's owner closes them
        try:
            with self._lock:
                self.start()
                assert self._control is not None
                socket.send_fds(self._control, [order.encoded()], [*(end for _, end in ends), channel])
                pid = int(self._control.recv(64) or b"0")
        except OSError:
            pid = 0
            self.close()
        finally:
            for _, end in ends:
                os.close(end)
        if pid:
            return ForkedProcess(pid, reading[0], reading[1])
        for stream in reading:
            stream.close()
        return None

    def close(self) -> None:
        """End the template; its children go on."""
        if self._control:
            self._control.close()
        if self._template:
            self._template.kill()
            self._template.wait()
        if self._folder:
            remove(self._folder)
        self._template = self._control = self._folder = None


@functools.cache
def fork_server() -> ForkServer:
    """The fork server of this process."""
    return ForkServer()
