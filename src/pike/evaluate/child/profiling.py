"""The profiler beside the candidate: a few calls under torch's profiler, summed up in a table.

Knows torch's profiler: operators on a CPU, kernels and what starts them on a GPU (Kineto and CUPTI). Marks each call of
the model with a range and counts only what lies inside, so that the stub's own copies do not show. Does not know what
becomes of the table; whatever it says may be forged by the candidate, and the judge checks it.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler import profile, record_function

from pike.evaluate.child import regions
from pike.evaluate.child.locks import KERNELS
from pike.evaluate.child.table import MOST_CALLS, Problem, Row, Table, pack

MARK = "pike: one call"
_STARTERS = ("cudaLaunch", "cuLaunch", "cudaMemcpy", "cudaMemset", "cuMemcpy", "cuMemset", "cudaGraphLaunch",
             "cuGraphLaunch")  # fmt: skip
_GRAPHS = ("cudaGraphLaunch", "cuGraphLaunch")


class Step(enum.IntEnum):
    """What PROFILE asks for, in this order; only the calls between BEGIN and END need the device alone."""

    PREPARE = 1
    """Attach the region that comes along and set the profiler up, which takes a second or more on a GPU."""
    BEGIN = 2
    END = 3
    WRITE = 4
    """Sum up, and write the table into the region."""


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """Body of PROFILE.

    Attributes:
        step: what is to be done.
        nbytes: size of the region that comes with PREPARE; it lies in host memory on every device.
    """

    step: Step
    nbytes: int = 0


@dataclass
class Recorder:
    """Profiles the calls of one model."""

    device: torch.device
    region: regions.Region | None = None
    allocated: list[int] = field(default_factory=list)
    problem: Problem = Problem.NONE
    _profile: profile | None = None
    _plain: Callable[..., Any] | None = None

    def obey(self, order: ProfileOrder, model: Callable[..., Any], fds: tuple[int, ...]) -> Callable[..., Any]:
        """Carry out one step; returns what is to be called as the model from now on."""
        if order.step is Step.PREPARE:
            self.prepare(fds[0], order.nbytes)
        elif order.step is Step.BEGIN:
            self.begin()
            return self.marked(model)
        elif order.step is Step.END:
            self.end()
            return self._plain or model
        else:
            self.write()
        return model

    def prepare(self, fd: int, nbytes: int) -> None:
        """Attach the region; load what the profiler needs."""
        self.region = regions.attach(fd, nbytes, torch.device("cpu"))
        self._begin()
        self.end()

    def marked(self, model: Callable[..., Any]) -> Callable[..., Any]:
        """`model`, its calls marked as ranges that end when the device is done."""
        self._plain = model

        def call(*args: Any, **kwargs: Any) -> Any:
            with record_function(MARK):
                result = model(*args, **kwargs)
                if self.device.type == "cuda":
                    torch.cuda.synchronize(self.device)
            self.allocated.append(self._held())
            return result

        return call

    def begin(self) -> None:
        """From now on calls are recorded."""
        self.allocated.clear()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        self._begin()

    def end(self) -> None:
        """Stop recording."""
        if self._profile is not None:
            try:
                self._profile.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            except RuntimeError as error:
                self.problem = self._explain(Problem.BROKEN, error)

    def write(self) -> None:
        """Sum up what was recorded, into the region."""
        assert self.region is not None, "WRITE before PREPARE"
        data = pack(self._table())
        self.region.tensor[: len(data)].copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))

    def _begin(self) -> None:
        # Not `torch.profiler.profile`, whose first start imports for seconds what it adds to a trace file.
        device = "cuda" if self.device.type == "cuda" else None
        try:
            self._profile = profile(use_device=device, use_kineto=True)
            self._profile.__enter__()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            self._profile, self.problem = None, self._explain(Problem.REFUSED, error)

    def _table(self) -> Table:
        if self._profile is None or self.problem:
            return Table(problem=self.problem or Problem.BROKEN)
        events: list[Any] = list(self._profile.function_events or ())
        found = [event for event in events if event.name == MARK and event.device_type == DeviceType.CPU]
        ranges = sorted(found, key=lambda event: event.time_range.start)[1:]  # the first call warms the profiler up
        if self.device.type == "cuda":
            return of_kernels(events, ranges, self.allocated[1:], torch.cuda.max_memory_allocated(self.device))
        return of_operators(ranges)

    def _explain(self, problem: Problem, error: RuntimeError) -> Problem:
        sys.stderr.write(f"profile: {error}\n")
        return problem

    def _held(self) -> int:
        return torch.cuda.memory_allocated(self.device) if self.device.type == "cuda" else 0


def of_operators(ranges: list[Any]) -> Table:
    """A CPU's table: the own times of all operators inside the ranges."""
    sums: dict[str, list[int]] = {}
    busy = []
    for one in ranges:
        inside = [(event.name, _ns(event.self_cpu_time_total)) for event in _descendants(one)]
        busy.append(sum(nanoseconds for _, nanoseconds in inside))
        for name, nanoseconds in inside:
            _add(sums, name, nanoseconds)
    return Table(_spans(ranges), tuple(busy[:MOST_CALLS]), rows=_rows(sums), total=sum(busy))


def of_kernels(events: list[Any], ranges: list[Any], allocated: list[int], peak_bytes: int) -> Table:
    """A GPU's table: kernels, copies and fills that began inside the ranges, and what the host started there."""
    inside = [event for event in events if _within(event.time_range.start, ranges)]
    work = [
        event
        for event in inside
        if event.device_type == DeviceType.CUDA
        and event.name not in (MARK, *KERNELS)
        and not getattr(event, "is_user_annotation", False)
    ]
    sums: dict[str, list[int]] = {}
    for event in work:
        _add(sums, event.name, _ns(event.time_range.end - event.time_range.start))
    started = [event.name for event in inside if event.device_type == DeviceType.CPU]
    return Table(
        spans=_spans(ranges),
        busy=tuple(_union_ns(work, one) for one in ranges[:MOST_CALLS]),
        allocated=tuple(allocated[:MOST_CALLS]),
        rows=_rows(sums),
        total=sum(nanoseconds for nanoseconds, _ in sums.values()),
        launches=sum(name.startswith(_STARTERS) for name in started),
        graphs=sum(name.startswith(_GRAPHS) for name in started),
        peak_bytes=peak_bytes,
        problem=Problem.NONE if work else Problem.NO_KERNELS,
    )


def _descendants(one: Any) -> Iterator[Any]:
    waiting = list(one.cpu_children)
    while waiting:
        event = waiting.pop()
        waiting.extend(event.cpu_children)
        yield event


def _within(moment: float, ranges: list[Any]) -> bool:
    return any(one.time_range.start <= moment < one.time_range.end for one in ranges)


def _union_ns(work: list[Any], one: Any) -> int:
    """How long at least one kernel that began inside a range ran, in nanoseconds."""
    covered, until = 0.0, float("-inf")
    times = [event.time_range for event in work if _within(event.time_range.start, [one])]
    for start, end in sorted((time.start, time.end) for time in times):
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return _ns(covered)


def _add(sums: dict[str, list[int]], name: str, nanoseconds: int) -> None:
    entry = sums.setdefault(name, [0, 0])
    entry[0] += nanoseconds
    entry[1] += 1


def _rows(sums: dict[str, list[int]]) -> tuple[Row, ...]:
    rows = [Row(name, nanoseconds, count) for name, (nanoseconds, count) in sums.items()]
    return tuple(sorted(rows, key=lambda row: -row.nanoseconds))


def _spans(ranges: list[Any]) -> tuple[int, ...]:
    return tuple(_ns(one.time_range.end - one.time_range.start) for one in ranges[:MOST_CALLS])


def _ns(microseconds: float) -> int:
    return max(0, round(1000 * microseconds))
