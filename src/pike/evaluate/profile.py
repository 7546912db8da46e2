"""Profile feedback: a few more calls of a valid candidate under a profiler, checked against the judge's own clock.

Knows how a profile is taken, when the child's table contradicts what the judge saw, and what the judge measures itself
(clock, memory, the reference's work). A profile decides nothing: whatever goes wrong here ends in a note. Does not know
how the child takes part (`child.profiling`) nor who looks at the result.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch

from pike.core.errors import InfraError
from pike.core.evaluation import EvaluateOptions, Status, Timing
from pike.core.profile import MOST_HOTSPOTS, Ceilings, Hotspot, Profile, clean_name
from pike.evaluate import footprint
from pike.evaluate.bench import Bench
from pike.evaluate.blocks import Kept
from pike.evaluate.checks import Checks
from pike.evaluate.child import regions
from pike.evaluate.child.cuda_driver import CudaDriverError
from pike.evaluate.child.profiling import ProfileOrder, Step
from pike.evaluate.child.table import TABLE_BYTES, Problem, Table, unpack
from pike.evaluate.child.wire import Command
from pike.evaluate.lease import Lease
from pike.evaluate.profile_labels import LEAKS, labels_of
from pike.evaluate.refusal import Refused
from pike.evaluate.runner import Allowance, Runner
from pike.evaluate.work import work_of

_CALLS_SECONDS = 0.3
_LEAST_CALLS, _MOST_PROFILED_CALLS = 4, 10
_ALONE_SECONDS, _TIMES_SLOWER, _SHARED_SECONDS = 5.0, 20.0, 30.0
"""What the candidate may take: alone on the device, plus so many times its measured time; and beside others."""
_TICKS, _TICK_NS = 1.02, 50_000
_MOST_SLACK, _LEAST_SLACK_NS = 0.5, 200_000
_MOST_STREAMS = 128
_LEAST_SHARE = 0.001
_MOST_COUNT_PER_CALL = 1_000_000
_PROBLEMS = {
    Problem.REFUSED: "the profiler does not start here",
    Problem.BROKEN: "the profiler failed",
    Problem.NO_KERNELS: "the profiler saw no kernel; CUPTI is missing, refused or in use by another tool",
}
CHECKED = (
    "Names and shares are what the candidate's own process recorded, checked against the judge's clock; "
    "rates are the judge's own measurements."
)


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose profile is taken: a valid candidate, with what is known about it.

    Attributes:
        bench: its task.
        runner: its child.
        options: its terms.
        timing: how fast it is.
        lease: of the device; not held.
    """

    bench: Bench
    runner: Runner
    options: EvaluateOptions
    timing: Timing
    lease: Lease


@dataclass
class _Found:
    """What came of it."""

    table: Table | None = None
    note: str = ""
    peak_bytes: int = 0
    labels: list[str] = field(default_factory=list)


def take(subject: Subject, ceilings: Ceilings | None = None) -> tuple[Profile, tuple[str, ...]]:
    """The profile of a valid candidate, and the labels that rest on it; the verdict stays as it is.

    Args:
        subject: the candidate; its child may be dead afterwards.
        ceilings: what the device can do, to be shown beside the rates.
    """
    found = _Found()
    try:
        _Session(subject, found).run()
    except (Refused, InfraError, CudaDriverError, OSError, torch.OutOfMemoryError) as error:
        how = error.status.value if isinstance(error, Refused) else type(error).__name__
        found.note = f"No profile: the candidate failed while it was profiled ({how})."
        found.table = None
    return _profile(subject, found, ceilings), tuple(found.labels)


class _Session:
    """The calls that are made for a profile."""

    def __init__(self, subject: Subject, found: _Found) -> None:
        self._subject, self._found = subject, found
        self._runner, self._bench, self._lease = subject.runner, subject.bench, subject.lease
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
        self._verify(random.SystemRandom().choice(kept))
        self._judge(data, walls)

    def _watch_memory(self) -> None:
        """Before the profiler is there, because it needs memory itself."""
        child = self._runner.child
        footprint.forget_peak(child.pids())
        readings = []
        for _ in range(self._calls):
            self._call()
            readings.append(footprint.resident_bytes(child.pids()))
        self._found.peak_bytes = max([*readings, footprint.peak_bytes(child.pids())])
        if footprint.grows(readings):
            self._found.labels.append(LEAKS)

    def _profiled(self, region: regions.HostRegion) -> tuple[list[int], list[Kept]]:
        """The judge's clock of each call but the first, and their outputs."""
        assert region.fd is not None
        with self._beside_others():
            self._order(Step.PREPARE, (region.fd,))
        with self._alone():
            self._order(Step.BEGIN)
            calls = [self._call() for _ in range(self._calls + 1)]
            self._order(Step.END)
        with self._beside_others():
            self._order(Step.WRITE)
        return [wall for wall, _ in calls[1:]], [kept for _, kept in calls]

    def _verify(self, kept: Kept) -> None:
        """A profile of calls with wrong answers is not one of the candidate."""
        with self._lease.shared():
            Checks(self._bench, self._runner, self._subject.options).recheck(kept)

    def _judge(self, data: bytes, walls: list[int]) -> None:
        found, child, on_cuda = self._found, self._runner.child, self._bench.device.type == "cuda"
        found.table, found.note = believed(data, walls, self._subject.timing.overhead_ms * 1e6, on_cuda)
        if found.table is None:
            return
        found.labels += labels_of(found.table, on_cuda, footprint.has_own_code(child.pids(), child.folder))
        if on_cuda:
            found.peak_bytes = min(found.table.peak_bytes, _device_bytes(self._bench.device))
            grew = footprint.grows(found.table.allocated) and LEAKS not in found.labels
            found.labels += [LEAKS] if grew else []

    def _call(self) -> tuple[int, Kept]:
        seed = secrets.randbits(63)
        call = self._runner.call(self._runner.stage(self._bench.draw(seed)))
        return call.wall_ns, Kept(seed, self._runner.snapshots()[0])

    def _order(self, step: Step, fds: tuple[int, ...] = ()) -> None:
        self._runner.order(Command.PROFILE, ProfileOrder(step, TABLE_BYTES), Status.RUNTIME_ERROR, fds)

    @contextmanager
    def _beside_others(self) -> Iterator[None]:
        with self._lease.shared():
            self._runner.allowance = Allowance(_SHARED_SECONDS)
            yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """As a candidate is timed: nobody else on the device, the reference stopped, the judge's threads quiet."""
        threads, twin = torch.get_num_threads(), self._bench.twin.child
        with self._lease.exclusive():
            self._runner.allowance = Allowance(self._alone_seconds)
            torch.set_num_threads(1)
            twin.freeze()
            try:
                yield
            finally:
                twin.thaw()
                torch.set_num_threads(threads)


def believed(data: bytes, walls_ns: Sequence[int], overhead_ns: float, on_cuda: bool) -> tuple[Table | None, str]:
    """The table that a child wrote, or None and why there is nothing to be shown.

    Args:
        data: what lay in the shared region.
        walls_ns: as for `contradiction`.
        overhead_ns: as for `contradiction`.
        on_cuda: as for `contradiction`.
    """
    try:
        table = unpack(data)
    except ValueError as error:
        return None, f"Discarded: the child's profile cannot be read, {error}."
    if table.problem:
        return None, f"No profile: {_PROBLEMS[table.problem]}."
    if wrong := contradiction(table, walls_ns, overhead_ns, on_cuda):
        return None, f"Discarded: the child's profile contradicts {wrong}."
    return table, CHECKED


def contradiction(table: Table, walls_ns: Sequence[int], overhead_ns: float, on_cuda: bool) -> str:
    """What a child's table contradicts, in words; empty if it may be true.

    Args:
        table: what the child says.
        walls_ns: the judge's clock of each profiled call, hand-over included.
        overhead_ns: of the hand-over.
        on_cuda: kernels may overlap, on several streams.
    """
    spans, busy, calls = table.spans, sum(table.busy), len(walls_ns)
    if len(spans) != calls:
        return f"the judge's count of calls ({len(spans)} instead of {calls})"
    excess = max(span - _TICKS * wall - _TICK_NS for span, wall in zip(spans, walls_ns, strict=True))
    if excess > 0:
        return _by(excess)
    # The least gap, because a busy machine wakes the judge late in most calls, and a liar lies in all.
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


def _profile(subject: Subject, found: _Found, ceilings: Ceilings | None) -> Profile:
    """The record: the judge's own figures, and with a table that was believed its rows."""
    on_cuda = subject.bench.device.type == "cuda"
    work, seconds = work_of(subject.bench), subject.timing.candidate_ms / 1e3
    profile = Profile(
        source=f"torch profiler ({subject.bench.device.type})",
        note=found.note,
        peak_bytes=found.peak_bytes,
        operations=work.operations,
        least_bytes=work.least_bytes,
        bytes_per_second=work.least_bytes / seconds,
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


def _device_bytes(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).total_memory)
