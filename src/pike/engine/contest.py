"""Measures many contenders on many tasks: several judges build side by side and time alone, and nothing is lost.

Knows a list of jobs in order of worth, the seats that work on them, a deadline, and that each result is handed over as
soon as it is there. Does not know who the contenders are (`opponents`) nor where results are kept (`store`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from pike.core.errors import InfraError
from pike.core.evaluation import Evaluation, EvaluationRequest, Status
from pike.core.results import Result
from pike.engine.executors.local import ATTEMPTS, Judge

OnResult = Callable[[Result], None]
"""Told each result, from a seat's thread, one at a time."""


class Job(Protocol):
    """Something that one seat does from beginning to end."""

    @property
    def expected_seconds(self) -> float:
        """How long it may take; it is not begun with less time left. 0 where nobody knows."""
        ...

    def results(self, seat: Seat) -> Iterator[Result]:
        """Carry it out, and give each result as it comes."""
        ...


class OutOfTime(Exception):
    """The deadline came; what was being measured is not known."""


class Seat:
    """Room for one job at a time, with a judge that is started when it is first needed."""

    def __init__(self, start: Callable[[], Judge]) -> None:
        self._start = start
        self._judge: Judge | None = None
        self._stopped = threading.Event()
        self._kill: Callable[[], None] | None = None
        self._lock = threading.Lock()

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """The verdict; a judge that dies is replaced and the evaluation tried once more.

        Raises:
            OutOfTime: the deadline came.
            UserError: the task cannot be used.
        """
        reason = ""
        for _ in range(ATTEMPTS):
            try:
                return self._ready().evaluate(request)
            except InfraError as error:
                reason = str(error)
                if self._stopped.is_set():
                    raise OutOfTime from error
        return Evaluation(Status.INFRA_ERROR, f"The judge failed {ATTEMPTS} times: {reason}")

    def guard(self, kill: Callable[[], None] | None) -> None:
        """What else has to be ended at the deadline, for a job that starts programs of its own; None for nothing.

        Raises:
            OutOfTime: the deadline came before.
        """
        with self._lock:
            self._kill = kill
            if kill is not None and self._stopped.is_set():
                kill()
                raise OutOfTime

    @property
    def stopped(self) -> bool:
        """Whether the deadline came."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """End whatever is going on, from another thread."""
        with self._lock:
            self._stopped.set()
            if self._kill is not None:
                self._kill()
            if self._judge is not None:
                self._judge.kill()

    def close(self) -> None:
        """Leave nothing behind."""
        if self._judge is not None:
            self._judge.close()

    def _ready(self) -> Judge:
        with self._lock:
            if self._stopped.is_set():
                raise OutOfTime
            self._judge = self._judge or self._start()
            return self._judge


class Contest:
    """Works through jobs with several seats.

    Args:
        seats: how many jobs at once.
        on_result: where results go.
        start: makes one judge, by default `evaluate.client.JudgeClient`.
        seconds: after how much time everything is stopped; jobs that expect to take longer than what is left are not
            begun.
    """

    def __init__(
        self,
        seats: int,
        on_result: OnResult,
        start: Callable[[], Judge] | None = None,
        seconds: float = float("inf"),
    ) -> None:
        self._on_result = on_result
        self._deadline = time.monotonic() + seconds
        self._waiting: deque[Job] = deque()
        self._seats = [Seat(start or _start_judge) for _ in range(seats)]
        self._failure: BaseException | None = None
        self._lock = threading.Lock()

    def run(self, jobs: Iterable[Job]) -> Sequence[Job]:
        """Carry out `jobs`, the first ones first; returns those that were not begun or not brought to an end.

        Raises:
            BaseException: whatever a job or `on_result` raised, after everything was stopped.
        """
        self._waiting = deque(jobs)
        left: list[Job] = []
        threads = [threading.Thread(target=self._work, args=(seat, left), daemon=True) for seat in self._seats]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    # In short steps, so that Ctrl-C is heard and the deadline kept.
                    thread.join(min(0.5, max(0.01, self._deadline - time.monotonic())))
                    if time.monotonic() >= self._deadline:
                        self._stop()
        finally:
            self._stop()
            for thread in threads:
                thread.join()
            for seat in self._seats:
                seat.close()
        if self._failure is not None:
            raise self._failure
        return [*left, *self._waiting]

    def _work(self, seat: Seat, left: list[Job]) -> None:
        while (job := self._next()) is not None:
            if job.expected_seconds > self._deadline - time.monotonic():
                left.append(job)
                continue
            try:
                for result in job.results(seat):
                    with self._lock:
                        self._on_result(result)
            except OutOfTime:
                left.append(job)
            except BaseException as error:  # handed to the caller, in whose thread it belongs
                self._failure = self._failure or error
                self._stop()

    def _next(self) -> Job | None:
        with suppress(IndexError):
            if not any(seat.stopped for seat in self._seats):
                return self._waiting.popleft()
        return None

    def _stop(self) -> None:
        for seat in self._seats:
            seat.stop()


def _start_judge() -> Judge:
    from pike.evaluate.client import JudgeClient

    return JudgeClient()
