"""Profile feedback: a few more calls of a valid candidate, checked against the judge's clock.

Clock, memory and the reference's work are the judge's own measurements. A profile decides nothing:
any failure ends in a note. Does not know the child's part (`child.profiling`).
"""

import random
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch

from pike.core.errors import InfraError
from pike.core.verdict.evaluation import EvaluateOptions, Status, Timing
from pike.core.verdict.profile import MOST_HOTSPOTS, Ceilings, Hotspot, Profile, clean_name
from pike.judge import processes
from pike.judge.calls.runner import Allowance, Runner
from pike.judge.checks import Checks
from pike.judge.child.memory import regions
from pike.judge.child.memory.cuda_driver import CudaDriverError
from pike.judge.child.orders import ProfileOrder, ProfileStep
from pike.judge.child.profile_table import TABLE_BYTES, ProfileProblem, ProfileTable, unpack
from pike.judge.child.wire import Command
from pike.judge.prepared_task import PreparedTask
from pike.judge.profile import footprint
from pike.judge.profile.labels import LEAKS, labels_of
from pike.judge.profile.work import work_of
from pike.judge.refusal import Refused
from pike.judge.timing.cores import torch_threads
from pike.judge.timing.device_lock import DeviceLock
from pike.judge.timing.reservoir import TimedOutput

_CALLS_SECONDS = 0.3
_LEAST_CALLS, _MOST_PROFILED_CALLS = 4, 10
_ALONE_SECONDS, _TIMES_SLOWER, _SHARED_SECONDS = 5.0, 20.0, 30.0
"""Time limits: alone on the device, plus so many times the measured time; and beside others."""
_TICKS, _TICK_NS = 1.02, 50_000
_MOST_SLACK, _LEAST_SLACK_NS = 0.5, 200_000
_MOST_STREAMS = 128
_LEAST_SHARE = 0.001
_MOST_COUNT_PER_CALL = 1_000_000
_PROBLEMS = {
    ProfileProblem.REFUSED: "the profiler does not start here",
    ProfileProblem.BROKEN: "the profiler failed",
    ProfileProblem.NO_KERNELS: "the profiler saw no kernel; CUPTI is missing, refused or in use by another tool",
}
CHECKED = (
    "Names and shares are what the candidate's own process recorded, checked against the judge's clock; "
    "rates are the judge's own measurements."
)


@dataclass(frozen=True, slots=True)
class ProfileSubject:
    """The valid candidate whose profile is taken; the device's lock is not held."""

    prepared: PreparedTask
    runner: Runner
    options: EvaluateOptions
    timing: Timing
    lock: DeviceLock


@dataclass
class _Found:
    table: ProfileTable | None = None
    note: str = ""
    peak_bytes: int = 0
    labels: list[str] = field(default_factory=list)


def take_profile(subject: ProfileSubject, ceilings: Ceilings | None = None) -> tuple[Profile, tuple[str, ...]]:
    """The profile of a valid candidate, whose child may be dead afterwards, and labels from it."""
    found = _Found()
    try:
        _Session(subject, found).run()
    except (Refused, InfraError, CudaDriverError, OSError, torch.OutOfMemoryError) as error:
        how = error.status.value if isinstance(error, Refused) else type(error).__name__
        found.note = f"No profile: the candidate failed while it was profiled ({how})."
        found.table = None
    return _profile(subject, found, ceilings), tuple(found.labels)


class _Session:
    def __init__(self, subject: ProfileSubject, found: _Found) -> None:
        self._subject, self._found = subject, found
        self._runner, self._prepared, self._lock = subject.runner, subject.prepared, subject.lock
        seconds = subject.timing.candidate_ms / 1e3
        self._calls = max(_LEAST_CALLS, min(_MOST_PROFILED_CALLS, int(_CALLS_SECONDS / max(seconds, 1e-6))))
        self._alone_seconds = _ALONE_SECONDS + _TIMES_SLOWER * seconds * self._calls

    def run(self) -> None:
        """Watch the memory of plain calls, then profile a few."""
        with self._alone():
            self._watch_memory()
        region = regions.HostRegion.allocate(TABLE_BYTES)
        try:
            walls, kept = self._profiled(region)
            data = region.tensor.clone().numpy().tobytes()
        finally:
            region.close()
        with self._lock.shared():  # calls with wrong answers are no profile of the candidate
            Checks(self._prepared, self._runner, self._subject.options).recheck(random.SystemRandom().choice(kept))
        self._judge(data, walls)

    def _watch_memory(self) -> None:
        """Runs before the profiler starts, which needs memory itself."""
        child = self._runner.child
        footprint.forget_peak(child.pids())
        readings = []
        for _ in range(self._calls):
            self._call()
            readings.append(sum(processes.resident_bytes(pid) for pid in child.pids()))
        self._found.peak_bytes = max([*readings, footprint.peak_bytes(child.pids())])
        if footprint.grows(readings):
            self._found.labels.append(LEAKS)

    def _profiled(self, region: regions.HostRegion) -> tuple[list[float], list[TimedOutput]]:
        """The judge's nanoseconds of each call but the first, and the outputs of all calls."""
        assert region.fd is not None
        with self._beside_others():
            self._order(ProfileStep.PREPARE, (region.fd,))
        with self._alone():
            self._order(ProfileStep.BEGIN)
            calls = [self._call() for _ in range(self._calls + 1)]
            self._order(ProfileStep.END)
        with self._beside_others():
            self._order(ProfileStep.WRITE)
        return [wall for wall, _ in calls[1:]], [kept for _, kept in calls]

    def _judge(self, data: bytes, walls: list[float]) -> None:
        found, child, on_cuda = self._found, self._runner.child, self._prepared.device.type == "cuda"
        found.table, found.note = believed(data, walls, self._subject.timing.overhead_ms * 1e6, on_cuda)
        if found.table is None:
            return
        found.labels += labels_of(found.table, on_cuda, footprint.has_own_code(child.pids(), child.folder))
        if on_cuda:
            found.peak_bytes = min(
                found.table.peak_bytes, torch.cuda.get_device_properties(self._prepared.device).total_memory
            )
            grew = footprint.grows(found.table.allocated) and LEAKS not in found.labels
            found.labels += [LEAKS] if grew else []

    def _call(self) -> tuple[float, TimedOutput]:
        seed = secrets.randbits(63)
        call = self._runner.call(self._runner.stage(self._prepared.draw(seed)))
        return call.wall_ns, TimedOutput(seed, self._runner.snapshots()[0])

    def _order(self, step: ProfileStep, fds: tuple[int, ...] = ()) -> None:
        self._runner.order(Command.PROFILE, ProfileOrder(step, TABLE_BYTES), Status.RUNTIME_ERROR, fds)

    @contextmanager
    def _beside_others(self) -> Iterator[None]:
        with self._lock.shared():
            self._runner.allowance = Allowance(_SHARED_SECONDS)
            yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the device alone, with the reference frozen and the judge's threads quiet."""
        with self._lock.exclusive(), self._prepared.reference_process.child.paused(), torch_threads(1):
            self._runner.allowance = Allowance(self._alone_seconds)
            yield


def believed(
    data: bytes, walls_ns: Sequence[float], overhead_ns: float, on_cuda: bool
) -> tuple[ProfileTable | None, str]:
    """The table in a region's bytes, or None and why it is not shown; see `contradiction`."""
    try:
        table = unpack(data)
    except ValueError as error:
        return None, f"Discarded: the child's profile cannot be read, {error}."
    if table.problem:
        return None, f"No profile: {_PROBLEMS[table.problem]}."
    if wrong := contradiction(table, walls_ns, overhead_ns, on_cuda):
        return None, f"Discarded: the child's profile contradicts {wrong}."
    return table, CHECKED


def contradiction(table: ProfileTable, walls_ns: Sequence[float], overhead_ns: float, on_cuda: bool) -> str:
    """What a child's table contradicts, in words; empty if it may be true.

    Args:
        table: the child's account.
        walls_ns: each profiled call by the judge's clock, transfer included.
        overhead_ns: the transfer alone.
        on_cuda: whether kernels may overlap, on several streams.
    """
    spans, busy, calls = table.spans, sum(table.busy), len(walls_ns)
    if len(spans) != calls:
        return f"the judge's count of calls ({len(spans)} instead of {calls})"
    excess = max(span - _TICKS * wall - _TICK_NS for span, wall in zip(spans, walls_ns, strict=True))
    if excess > 0:
        return _by(excess)
    # Take the least gap: a busy machine wakes the judge late in most calls, a liar lies in all.
    gap = min(wall - overhead_ns - span for span, wall in zip(spans, walls_ns, strict=True))
    if gap > max(_MOST_SLACK * min(walls_ns), _LEAST_SLACK_NS):
        return _by(gap)
    excess = max(part - _TICKS * span - _TICK_NS for part, span in zip(table.busy, spans, strict=True))
    if excess > 0:
        return _by(excess)
    lanes = _MOST_STREAMS if on_cuda else 1
    listed = sum(row.nanoseconds for row in table.rows)
    if busy > _TICKS * table.total + _TICK_NS or table.total > _TICKS * lanes * busy + _TICK_NS:
        return "itself: the sum of all times and the time in which anything ran do not fit"
    if listed > table.total or (table.total > 0 and not table.rows):
        return "itself: its rows and their sum do not fit"
    counts = [table.launches, table.graphs, *(row.count for row in table.rows)]
    if max(counts) > _MOST_COUNT_PER_CALL * calls:
        return "what a program can start in a call"
    return ""


def _by(nanoseconds: float) -> str:
    return f"the judge's clock by {nanoseconds / 1e6:.3g} ms a call"


def _profile(subject: ProfileSubject, found: _Found, ceilings: Ceilings | None) -> Profile:
    """The record: the judge's own figures, and the rows of a table that was believed."""
    on_cuda = subject.prepared.device.type == "cuda"
    work, seconds = work_of(subject.prepared), subject.timing.candidate_ms / 1e3
    profile = Profile(
        source=f"torch profiler ({subject.prepared.device.type})",
        note=found.note,
        peak_bytes=found.peak_bytes,
        operations=work.operations,
        least_bytes=work.bytes,
        bytes_per_second=work.bytes / seconds,
        operations_per_second=work.operations / seconds,
        ceilings=ceilings,
    )
    table = found.table
    if table is None:
        return profile
    calls = len(table.spans)
    busy = sum(table.busy)
    spent = max(1, table.total if on_cuda else max(sum(table.spans), table.total))
    return replace(
        profile,
        hotspots=tuple(
            Hotspot(clean_name(row.name), row.nanoseconds / spent, row.count / calls)
            for row in sorted(table.rows, key=lambda row: -row.nanoseconds)[:MOST_HOTSPOTS]
            if row.nanoseconds >= _LEAST_SHARE * spent
        ),
        busy_share=min(1.0, busy / calls / (seconds * 1e9) if on_cuda else busy / spent),
        launches=table.launches / calls if on_cuda else None,
    )
