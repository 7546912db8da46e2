"""The other end of a judge process, for whoever wants verdicts.

Knows how to start a judge, ask it and get rid of it. Does not import torch and does not judge.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from pike.core.codec import decode, encode
from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, UserError
from pike.core.evaluation import EvaluateOptions, Evaluation, EvaluationRequest
from pike.core.lint import LintReport
from pike.core.task import Task

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


class JudgeClient:
    """One judge process, started at the first question; blocking, one question at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def evaluate(self, request: EvaluationRequest, on_stage: Callable[[str], None] | None = None) -> Evaluation:
        """The verdict on a candidate.

        Args:
            request: task, source and terms.
            on_stage: told the name of each stage as it begins, from this thread.

        Raises:
            UserError: the task or an option cannot be used.
            InfraError: the judge died; the next question starts a new one.
        """
        answer = self._ask({"op": "evaluate", "request": encode(request)}, on_stage)
        return decode(Evaluation, answer["evaluation"])

    def facts(self, device: str) -> DeviceFacts:
        """What a device is.

        Raises:
            UserError: there is no such device.
            InfraError: the judge died.
        """
        return decode(DeviceFacts, self._ask({"op": "facts", "device": device}, None)["facts"])

    def lint(self, task: Task, options: EvaluateOptions) -> LintReport:
        """Whether a task tests anything.

        Raises:
            UserError: the task or an option cannot be used.
            InfraError: the judge died.
        """
        request = EvaluationRequest(task, "", options)
        return decode(LintReport, self._ask({"op": "lint", "request": encode(request)}, None)["lint"])

    def kill(self) -> None:
        """End the judge at once, from any thread; its children die with it."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def close(self) -> None:
        """Let the judge clean up and end; may be called again."""
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
        process.stdout.close()

    def _ask(self, message: dict[str, Any], on_stage: Callable[[str], None] | None) -> dict[str, Any]:
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(json.dumps(message) + "\n")
                process.stdin.flush()
                for line in process.stdout:
                    answer: dict[str, Any] = json.loads(line)
                    if "user_error" in answer:
                        raise UserError(answer["user_error"])
                    if "stage" not in answer:
                        return answer
                    if on_stage is not None:
                        on_stage(answer["stage"])
            except BrokenPipeError:
                pass
            code = process.wait()
            self._process = None
            raise InfraError(f"the judge process ended with code {code}; its last words are on stderr")

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pike.evaluate.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=_environment(),
                start_new_session=True,
            )
        return self._process


def _environment() -> dict[str, str]:
    """Everything but secrets: a judge needs none, and a candidate might look into its parent."""
    kept = {name: value for name, value in os.environ.items() if not _SECRET.search(name)}
    return kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path and os.path.isdir(path))}
