"""The client of a judge process.

Knows how to start a judge, ask it and end it. Does not import torch and does not judge.
"""

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pike.core.codec import decode, encode
from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, UserError, saying
from pike.core.task import Task
from pike.core.verdict.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, OnStage, Requests
from pike.core.verdict.lint import LintReport
from pike.judge.process.leftovers import folder_prefix, remove

_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


class SharedCaches:
    """A folder in which judges of this machine keep compilers' caches together.

    It is removed with this object, and where this process is killed, by the next judge that starts.

    Attributes:
        message: what a judge is told of it.
    """

    def __init__(self) -> None:
        """A new folder.

        Raises:
            InfraError: the disk refuses.
        """
        with saying(InfraError, "There is no folder for compilers' caches", "set TMPDIR to a folder with room"):
            folder = tempfile.mkdtemp(prefix=folder_prefix())
        self.message = {"op": "share", "folder": folder, "key": secrets.token_hex()}
        weakref.finalize(self, remove, Path(folder))


class JudgeClient:
    """One judge process, started at the first request; blocking, one request at a time."""

    def __init__(self, variables: Mapping[str, str] | None = None, caches: SharedCaches | None = None) -> None:
        """A judge that is not started yet.

        Args:
            variables: are added to its environment.
            caches: where it keeps compilers' caches with other judges; by default it is alone.
        """
        self._variables = dict(variables or {})
        self._caches = caches
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """The judge's process id; 0 if none runs."""
        return self._process.pid if self._process else 0

    def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The verdict on a candidate; `on_stage` is told each stage as it begins, from this thread.

        Raises:
            UserError: the task or an option cannot be used.
            InfraError: the judge died; the next request starts a new one.
        """
        return self.evaluate_together([request], on_stage)[0]

    def evaluate_together(self, requests: Requests, on_stage: OnStage | None = None) -> list[Evaluation]:
        """The verdicts on several candidates of one task on the same terms, timed in the same
        sessions; raises as `evaluate` does."""
        answer = self._ask({"op": "evaluate", "requests": [encode(request) for request in requests]}, on_stage)
        return [decode(Evaluation, one) for one in answer["evaluations"]]

    def facts(self, device: str) -> DeviceFacts:
        """What a device is.

        Raises:
            UserError: there is no such device.
            InfraError: the judge died.
        """
        return decode(DeviceFacts, self._ask({"op": "facts", "device": device}, None)["facts"])

    def gpu_count(self) -> int:
        """How many CUDA devices torch sees.

        Raises:
            InfraError: the judge died.
        """
        return int(self._ask({"op": "gpus"}, None)["gpus"])

    def lint(self, task: Task, options: EvaluateOptions) -> LintReport:
        """Whether a task tests anything.

        Raises:
            UserError: the task or an option cannot be used.
            InfraError: the judge died.
        """
        request = EvaluationRequest(task, "", options)
        return decode(LintReport, self._ask({"op": "lint", "requests": [encode(request)]}, None)["lint"])

    def preflight(self, request: EvaluationRequest) -> float | None:
        """Milliseconds of the original, once it was seen that a candidate of the task can be judged.

        Raises:
            UserError: it cannot.
            InfraError: the judge died, or found too little memory beside others.
        """
        return float(self._ask({"op": "preflight", "requests": [encode(request)]}, None)["original_ms"])

    def release(self) -> None:
        """Hand back all of the device's memory by dropping the prepared task and the warm process.

        Waits until a running evaluation ends. Does nothing if no judge process runs.

        Raises:
            InfraError: the judge died.
        """
        if self._process is not None:
            self._ask({"op": "release"}, None)

    def kill(self) -> None:
        """End the judge at once, from any thread; its children die with it."""
        process = self._process  # another thread may find it ended meanwhile
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    def close(self) -> None:
        """Let the judge clean up and end, also in the middle of a request; may be called again."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(timeout=10.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if not self._lock.locked():  # a request under way reads to the end and closes it
            process.stdout.close()

    def _ask(self, message: dict[str, Any], on_stage: OnStage | None) -> dict[str, Any]:
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(json.dumps(message) + "\n")
                process.stdin.flush()
                for line in process.stdout:
                    answer: dict[str, Any] = json.loads(line)
                    if "ends" in answer:
                        self._ended(process)
                    if "user_error" in answer:
                        raise UserError(answer["user_error"])
                    if "infra_error" in answer:
                        raise InfraError(answer["infra_error"])
                    if "stage" not in answer:
                        return answer
                    if on_stage is not None:
                        on_stage(answer["stage"])
            except BrokenPipeError:
                pass
            code = self._ended(process)
            why = "; the machine may have run out of memory" if code == -signal.SIGKILL else ""
            if -code in _CRASHES:
                why = "; the original likely crashed it: call it on its inputs in a process of its own"
            raise InfraError(f"the judge process ended with code {code}{why}; its last words are on stderr")

    def _ended(self, process: subprocess.Popen[str]) -> int:
        """The exit code of a judge that ends by itself; the next request starts another."""
        code = process.wait()
        assert process.stdout is not None
        process.stdout.close()
        self._process = None
        return code

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", "pike.judge.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=_environment() | self._variables,
                start_new_session=True,
            )
            if self._caches and process.stdin:  # not by its environment, which candidates may read
                process.stdin.write(json.dumps(self._caches.message) + "\n")  # sent with the request
        return self._process


def _environment() -> dict[str, str]:
    """Everything but secrets: a judge needs none, and a candidate might find them."""
    kept = {name: value for name, value in os.environ.items() if not _SECRET.search(name)}
    return kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path and os.path.isdir(path))}
