"""The outlines of tasks, each found in another process.

Knows how to start that process and how long a task may take in it. A task that kills the process
loses only its own outline. The process runs this module: `python -m pike.tasks.outline_process`.
Does not know what an outline says (`outline`).
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from pike.core.codec import decode, encode
from pike.core.task import Task
from pike.tasks.outline import Outline, outline

MOST_SECONDS = 60.0
"""The time limit of one task."""
_MOST_BYTES = 4 << 30
"""Address space beyond that at the start, for constructors that need memory."""


class Inspector(AbstractContextManager["Inspector"]):
    """Finds outlines in a process, which starts when needed and again after a task killed it."""

    def __init__(self, most_seconds: float = MOST_SECONDS) -> None:
        self.most_seconds = most_seconds
        self._process: subprocess.Popen[str] | None = None

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._stop()

    def outline(self, task: Task) -> Outline:
        """The outline of a task; one that crashes or takes too long has only a problem."""
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        words = {"source": task.source, "origin": task.origin, "import_paths": task.import_paths}
        try:
            process.stdin.write(json.dumps(words) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._failed("its process ended")
        if not _is_ready(process.stdout, self.most_seconds):
            return self._failed(f"took more than {self.most_seconds:g} s")
        line = process.stdout.readline()
        return decode(Outline, json.loads(line)) if line else self._failed("its code ended the process")

    def _start(self) -> subprocess.Popen[str]:
        # Only the answers are read; a task may print anything.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pike.tasks.outline_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path()), "CUDA_VISIBLE_DEVICES": ""},
        )
        return self._process

    def _failed(self, reason: str) -> Outline:
        self._stop()
        return Outline(problems=(reason,))

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _is_ready(stream: IO[str], seconds: float) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def _import_path() -> Iterator[str]:
    """Where this process finds `pike`, even if it is not installed."""
    yield str(Path(__file__).resolve().parent.parent.parent)
    if inherited := os.environ.get("PYTHONPATH"):
        yield inherited


def _serve(requests: Iterable[str], answers: IO[str]) -> None:
    for line in requests:
        asked = json.loads(line)
        found = outline(asked["source"], asked["origin"], tuple(asked["import_paths"]))
        answers.write(json.dumps(encode(found)) + "\n")
        answers.flush()


def _limit_memory() -> None:
    """Let a constructor fail before it uses up the machine's memory."""
    try:
        import resource
    except ImportError:
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        most = pages * resource.getpagesize() + _MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> None:
    """Answer requests on stdin until it closes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(1)
    _limit_memory()
    _serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
