"""The profiler beside the candidate: a few calls under torch's profiler, summed up in a table.

Counts operators on a CPU and kernels on a GPU, inside the calls of the model only. The candidate
may forge the table, so the judge checks it.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler import profile, record_function

from pike.judge.child.memory import regions
from pike.judge.child.memory.cipher import KERNELS
from pike.judge.child.orders import ProfileOrder, ProfileStep
from pike.judge.child.profile_table import MOST_CALLS, ProfileProblem, ProfileRow, ProfileTable, pack

MARK = "pike: one call"
_STARTERS = ("cudaLaunch", "cuLaunch", "cudaMemcpy", "cudaMemset", "cuMemcpy", "cuMemset", "cudaGraphLaunch",
             "cuGraphLaunch")  # fmt: skip
_GRAPHS = ("cudaGraphLaunch", "cuGraphLaunch")


@dataclass
class Recorder:
    """Profiles the calls of one model."""

    device: torch.device
    region: regions.Region | None = None
    allocated: list[int] = field(default_factory=list)
    problem: ProfileProblem = ProfileProblem.NONE
    _profile: profile | None = None
    _plain: Callable[..., Any] | None = None

    def obey(self, order: ProfileOrder, model: Callable[..., Any], fds: tuple[int, ...]) -> Callable[..., Any]:
        """Carry out one step; returns what to call as the model from now on."""
        if order.step is ProfileStep.PREPARE:
            self.region = regions.attach(fds[0], order.nbytes, torch.device("cpu"))
            self._begin()  # loads what the profiler needs
            self._end()
        elif order.step is ProfileStep.BEGIN:
            self.allocated.clear()
            if self.device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(self.device)
            self._begin()
            return self._marked(model)
        elif order.step is ProfileStep.END:
            self._end()
            return self._plain or model
        else:
            assert self.region is not None, "WRITE before PREPARE"
            data = pack(self._table())
            self.region.tensor[: len(data)].copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        return model

    def _marked(self, model: Callable[..., Any]) -> Callable[..., Any]:
        """`model` with each call marked as a range that ends when the device is done."""
        self._plain = model

        def call(*args: Any, **kwargs: Any) -> Any:
            on_cuda = self.device.type == "cuda"
            with record_function(MARK):
                result = model(*args, **kwargs)
                if on_cuda:
                    torch.cuda.synchronize(self.device)
            self.allocated.append(torch.cuda.memory_allocated(self.device) if on_cuda else 0)
            return result

        return call

    def _end(self) -> None:
        if self._profile is not None:
            try:
                self._profile.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            except RuntimeError as error:
                self.problem = self._explain(ProfileProblem.BROKEN, error)

    def _begin(self) -> None:
        # The first start of `torch.profiler.profile` takes seconds, because it imports what traces need.
        device = "cuda" if self.device.type == "cuda" else None
        try:
            self._profile = profile(use_device=device, use_kineto=True)
            self._profile.__enter__()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            self._profile, self.problem = None, self._explain(ProfileProblem.REFUSED, error)

    def _table(self) -> ProfileTable:
        if self._profile is None or self.problem:
            return ProfileTable(problem=self.problem or ProfileProblem.BROKEN)
        events: list[Any] = list(self._profile.function_events or ())
        found = [event for event in events if event.name == MARK and event.device_type == DeviceType.CPU]
        ranges = sorted(found, key=lambda event: event.time_range.start)[1:]  # the first call warms the profiler up
        if self.device.type == "cuda":
            return of_kernels(events, ranges, self.allocated[1:], torch.cuda.max_memory_allocated(self.device))
        return of_operators(ranges)

    def _explain(self, problem: ProfileProblem, error: RuntimeError) -> ProfileProblem:
        sys.stderr.write(f"profile: {error}\n")
        return problem


def of_operators(ranges: list[Any]) -> ProfileTable:
    """A CPU's table: the own times of all operators inside the ranges."""
    sums: dict[str, list[int]] = {}
    busy = []
    for one in ranges:
        inside = [(event.name, _ns(event.self_cpu_time_total)) for event in _descendants(one)]
        busy.append(sum(nanoseconds for _, nanoseconds in inside))
        for name, nanoseconds in inside:
            _add(sums, name, nanoseconds)
    return ProfileTable(_spans(ranges), tuple(busy[:MOST_CALLS]), rows=_rows(sums), total=sum(busy))


def of_kernels(events: list[Any], ranges: list[Any], allocated: list[int], peak_bytes: int) -> ProfileTable:
    """A GPU's table: kernels, copies, fills and launches that began inside the ranges."""
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
    return ProfileTable(
        spans=_spans(ranges),
        busy=tuple(_union_ns(work, one) for one in ranges[:MOST_CALLS]),
        allocated=tuple(allocated[:MOST_CALLS]),
        rows=_rows(sums),
        total=sum(nanoseconds for nanoseconds, _ in sums.values()),
        launches=sum(name.startswith(_STARTERS) for name in started),
        graphs=sum(name.startswith(_GRAPHS) for name in started),
        peak_bytes=peak_bytes,
        problem=ProfileProblem.NONE if work else ProfileProblem.NO_KERNELS,
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


def _rows(sums: dict[str, list[int]]) -> tuple[ProfileRow, ...]:
    rows = [ProfileRow(name, nanoseconds, count) for name, (nanoseconds, count) in sums.items()]
    return tuple(sorted(rows, key=lambda row: -row.nanoseconds))


def _spans(ranges: list[Any]) -> tuple[int, ...]:
    return tuple(_ns(one.time_range.end - one.time_range.start) for one in ranges[:MOST_CALLS])


def _ns(microseconds: float) -> int:
    return max(0, round(1000 * microseconds))
