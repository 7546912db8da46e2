"""Explores a model for recipes in a process of its own, under a limit of time.

Capturing a graph sets switches of the whole process, and a user's model may hang, crash or eat
memory. A process that ends without an answer is replaced once, by one that captures no graph. Does
not know recipes.
"""

import asyncio
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from pike.core.codec import decode, encode
from pike.core.device import DeviceFacts
from pike.core.errors import InfraError
from pike.core.task import Task
from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest
from pike.engine.executors import gpus
from pike.engine.executors.contract import Executor

if TYPE_CHECKING:  # the recipes import PyTorch's compilers, which most commands do not need
    from pike.recipes.search.explored import Explored

THREADS = "2"
"""CPU threads of torch in each process: what is timed meanwhile needs the others."""
SECONDS = 120.0
"""The most for capturing, and for one recipe's look; half of the judge's limit where that is less,
because a candidate captures its model again."""
_ENDED = "The recipes could not explore the model: the run ended before"
TIMES = 4
"""A process that does not notice its limits is ended after this multiple of them."""


class Explorer(Protocol):
    """Finds out which recipes apply to a task."""

    def explore(self, task: Task, device: DeviceFacts, options: EvaluateOptions) -> "Explored":
        """What recipes say about a task; blocks for seconds to minutes.

        Raises:
            InfraError: the explorer was closed.
        """

    def close(self) -> None:
        """End what is going on."""


class ProcessExplorer:
    """Explores each task in a process of its own; safe to use from several threads."""

    def __init__(self, entries: Sequence[str] = ("",)) -> None:
        """An explorer whose processes take turns on GPUs (`gpus.entries`)."""
        self._entries = itertools.cycle(entries)
        self._running: set[subprocess.Popen[str]] = set()
        self._closed = False
        self._lock = threading.Lock()

    def explore(self, task: Task, device: DeviceFacts, options: EvaluateOptions) -> "Explored":
        """What recipes say about a task; all decline where two processes end without an answer."""
        from pike.recipes.search.explored import Explored

        why = ""
        for _ in range(2):
            question = [encode(value) for value in (task, device, options, why)]
            words, why = self._ask(json.dumps(question), TIMES * _limit(options))
            try:
                return Explored.of(json.loads(words.strip().splitlines()[-1]))
            except (IndexError, ValueError):
                continue
        return Explored.nothing(f"the recipes could not explore the model: {why}")

    def _ask(self, question: str, seconds: float) -> tuple[str, str]:
        """What a process answers, and why there may be no answer."""
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(next(self._entries)),
            start_new_session=True,
        )
        with self._lock:
            self._running.add(process)
            if self._closed:
                self._running.pop().kill()
        why = ""
        try:
            answer, words = process.communicate(question, timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            answer, words = process.communicate()
            why = f"a process that captured it did not end within {seconds:g} s"
        with self._lock:
            if process not in self._running:
                raise InfraError(_ENDED)
            self._running.remove(process)
        if process.returncode == 1 and "Traceback" in words:
            why = words.strip().splitlines()[-1]
        return answer, why or f"a process that captured it ended with code {process.returncode}"

    def close(self) -> None:
        """End what is going on; nothing begins afterwards."""
        with self._lock:
            self._closed = True
            while self._running:
                self._running.pop().kill()


class ExplorerThere:
    """Explores where the judges of an executor are, and here if it explores nothing; made in the
    loop of the executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor, self._loop, self._here = executor, asyncio.get_running_loop(), ProcessExplorer()
        self._asked: set[Future[str]] = set()
        self._closed = False

    def explore(self, task: Task, device: DeviceFacts, options: EvaluateOptions) -> "Explored":
        """What recipes say about a task."""
        from pike.recipes.search.explored import Explored

        asked = self._executor.explore(EvaluationRequest(task, "", options), device)
        coming = asyncio.run_coroutine_threadsafe(asked, self._loop)
        self._asked.add(coming)
        if self._closed:
            coming.cancel()
        try:
            found = coming.result()
        except CancelledError as error:
            raise InfraError(_ENDED) from error
        finally:
            self._asked.discard(coming)
        return Explored.of(json.loads(found)) if found else self._here.explore(task, device, options)

    def close(self) -> None:
        """End what is going on."""
        self._here.close()
        self._closed = True
        for coming in tuple(self._asked):
            coming.cancel()


class Begun:
    """An explorer that is at work on the question that will be asked first."""

    def __init__(self, explorer: Explorer, task: Task, device: DeviceFacts, options: EvaluateOptions) -> None:
        self._explorer, self._question = explorer, (task, device, options)
        self._answer = ThreadPoolExecutor(1, "pike-explorer").submit(explorer.explore, task, device, options)

    def explore(self, task: Task, device: DeviceFacts, options: EvaluateOptions) -> "Explored":
        """What recipes say about a task."""
        if (task, device, options) == self._question:
            return self._answer.result()
        return self._explorer.explore(task, device, options)

    def close(self) -> None:
        """End what is going on."""
        self._explorer.close()


def _explored(task: Task, device: DeviceFacts, options: EvaluateOptions, uncapturable: str) -> "Explored":
    from pike.engine.output import originals
    from pike.recipes.search.explored import explore, problem_of

    problem = problem_of(originals.load(task).reference, device, options)
    return explore(problem.limited(_limit(options), uncapturable))


def _limit(options: EvaluateOptions) -> float:
    return min(SECONDS, options.timeout_seconds / 2)


def _environment(entry: str) -> dict[str, str]:
    paths = os.pathsep.join(path for path in sys.path if path and os.path.isdir(path))
    return {"OMP_NUM_THREADS": THREADS, **os.environ, "PYTHONPATH": paths} | ({gpus.VISIBLE: entry} if entry else {})


if __name__ == "__main__":
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a model may print
    asked = json.load(sys.stdin)
    kinds: tuple[Any, ...] = (Task, DeviceFacts, EvaluateOptions, str)
    found = _explored(*(decode(kind, value) for kind, value in zip(kinds, asked, strict=True)))
    channel.write(found.text + "\n")
    channel.close()
