"""One candidate on its way through parse, build, load, correct, time and recheck.

Knows the order of the stages, what each may refuse, and which lease each needs. Does not know who asks, what happens
with the verdict, or when a candidate is tried twice (`judge`).
"""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch

from pike.core import profile as profiles
from pike.core.evaluation import (
    FIRST_CALL,
    SHARED_DEVICE,
    EvaluateOptions,
    Evaluation,
    EvaluationRequest,
    Precision,
    Stage,
    Status,
    Timing,
    Weights,
)
from pike.core.task import TaskKind
from pike.evaluate import cores
from pike.evaluate.bench import Bench
from pike.evaluate.blocks import Sides, standing_still
from pike.evaluate.checks import Checks
from pike.evaluate.child.stub import FROM_REFERENCE, SEEDED, STATE_DICT, BuildOrder, HelloOrder
from pike.evaluate.child.wire import Command
from pike.evaluate.device import is_quiet, release_memory
from pike.evaluate.launch import ChildPlan
from pike.evaluate.lease import Lease
from pike.evaluate.nursery import Nursery
from pike.evaluate.nvml import reader_of
from pike.evaluate.profile import Subject, take
from pike.evaluate.refusal import Refused
from pike.evaluate.roofline import Floor, Roofline
from pike.evaluate.runner import Allowance, Runner
from pike.evaluate.sandbox import Claim, SandboxLevel
from pike.evaluate.timing import Stopwatch, TimingPlan, labels_of, plan_for, plan_for_audit

_CLASS = "ModelNew"
_MOST_SOURCE_BYTES = 1 << 20
_WEIGHTS = {STATE_DICT: Weights.STATE_DICT, FROM_REFERENCE: Weights.FROM_REFERENCE, SEEDED: Weights.SEEDED}
AUDITED = "audited"
"""Label of a candidate whose time was too good to be true at first, and plausible when everything was tried again."""
OnStage = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Bout:
    """What is timed, and what watches over it."""

    bench: Bench
    runner: Runner
    checks: Checks
    roofline: Roofline


class Trial:
    """One candidate on its way through the stages."""

    def __init__(
        self,
        request: EvaluationRequest,
        device: torch.device,
        level: SandboxLevel,
        nursery: Nursery,
        on_stage: OnStage,
        lease: Lease,
    ) -> None:
        self._request = request
        self._options: EvaluateOptions = request.options
        self.device = device
        self._level = level
        self._nursery = nursery
        self._on_stage = on_stage
        self.lease = lease
        self._seconds: dict[str, float] = {}
        self._runner: Runner | None = None
        self._status, self._reason, self._log = Status.INFRA_ERROR, "", ""
        self._checks: Checks | None = None
        self._timing: Timing | None = None
        self._labels: list[str] = []
        self._weights = Weights.NONE
        self._profile: profiles.Profile | None = None

    def parse(self) -> None:
        """Refuse what is no Python file with a class `ModelNew`."""
        with self._stage(Stage.PARSE):
            wrong = parse_problem(self._request.source)
        if wrong:
            raise Refused(Status.PARSE_ERROR, wrong)

    def judge(self, bench: Bench, roofline: Roofline) -> None:
        """All stages after parsing."""
        runner = self._start(bench)
        if self.device.type == "cuda":  # whoever times would feel a context being made
            with self.lease.shared():
                runner.order(Command.HELLO, HelloOrder(str(self.device)), Status.INFRA_ERROR)
        with self._stage(Stage.BUILD), self.lease.shared() if self.device.type == "cpu" else nullcontext():
            path = runner.child.folder / "candidate.py"
            path.write_text(self._request.source)
            order = BuildOrder(str(path), str(self.device), self._options.threads, self._request.task.import_paths)
            self._nursery.prepare(self._plan(bench))  # while this one builds
            runner.order(Command.BUILD, order, Status.BUILD_ERROR)
        with self._stage(Stage.LOAD), self.lease.shared():
            up = runner.order(Command.LOAD, bench.load_order(_CLASS), Status.LOAD_ERROR)
            self._weights = _WEIGHTS.get(up.detail, Weights.NONE)
            runner.map(bench.inputs, bench.outputs, bench.may_alias, bench.places)
        with self._stage(Stage.CORRECT), self.lease.shared():
            checks = self._checks = Checks(bench, runner, self._options, self._own_clock)
            checks.before_timing(self._request.effort)
            runner.seal()
            release_memory(self.device)
        if self.device.type == "cpu":  # a child that starts up would stand in the way of what is timed
            with self.lease.shared():
                self._nursery.settle()
        plan = plan_for(self._request.effort, self._options.max_timing_seconds, bench.places, self._request.beat)
        bout = _Bout(bench, runner, checks, roofline)
        timing, floor = self._timed(bout, plan)
        if floor is not None:
            timing = self._audited(bout)
        self._labels += labels_of(timing, self.device.type == "cuda")
        self._status, self._reason, self._timing = Status.VALID, "", timing
        self._log = runner.child.log()
        if self._request.profile:
            with self._stage(Stage.PROFILE):
                subject = Subject(bench, runner, self._options, timing, self.lease)
                self._profile, labels = take(subject, self._ceilings(bout))
                self._labels += labels

    def refused(self, status: Status, reason: str) -> None:
        """Record what ended the evaluation, with what the child printed."""
        self._status, self._reason = status, reason
        self._log = self._runner.child.log() if self._runner else ""

    def verdict(self) -> Evaluation:
        """The verdict as far as the trial knows it."""
        self._seconds["lease"] = self.lease.waited_seconds
        if self._checks and self._checks.first_call_seconds is not None:
            self._seconds[FIRST_CALL] = self._checks.first_call_seconds
        return Evaluation(
            status=self._status,
            reason=self._reason,
            timing=self._timing,
            error=self._checks.error if self._checks else None,
            labels=tuple(dict.fromkeys([*(self._checks.labels if self._checks else ()), *self._labels])),
            profile=self._profile,
            weights=self._weights,
            seconds=tuple((name, round(seconds, 3)) for name, seconds in self._seconds.items()),
            log=self._log,
        )

    def close(self) -> None:
        """Kill the child, whatever happened; what its compilers left is kept if it came to the end."""
        if self._runner:
            # Whoever times would feel a context go, but whatever failed may still be running.
            leave = self.device.type == "cuda" and self._status is Status.VALID
            with self.lease.shared() if leave else nullcontext():
                self._runner.close()
            self._nursery.take_back(self._status is Status.VALID)

    def _timed(self, bout: _Bout, plan: TimingPlan) -> tuple[Timing, Floor | None]:
        """The timing, its outputs verified, and the floor that it lies below."""
        bench = bout.bench
        cpus = cores.share(self._options.threads, self.device.index or 0)
        with self._stage(Stage.TIME), self.lease.exclusive(), cores.keeping(cpus, bench.twin, bout.runner):
            watch = Stopwatch(Sides(bench.twin, bout.runner, bench.draw, reader_of(self.device)), plan)
            self._nursery.stand_still(True)
            try:
                with standing_still(bench.twin, bout.runner):
                    self._labels += [] if is_quiet(self.device) else [SHARED_DEVICE]
                timing = watch.measure()
            finally:
                self._nursery.stand_still(False)
            with standing_still(bout.runner):
                look = bout.roofline.look(timing, bench.need, self._options.tolerance)
        with self._stage(Stage.RECHECK), self.lease.shared():
            while watch.kept:  # each may be a gigabyte, and regimes need room too
                bout.checks.recheck(watch.kept.pop())
            bout.checks.after_timing(self._request.effort)
            release_memory(self.device)
        self._labels += [look.label] if look.label else []
        return timing, look.below

    def _ceilings(self, bout: _Bout) -> profiles.Ceilings | None:
        """What the device can do, to be shown beside what a candidate does; None where there is no room to measure."""
        with self.lease.exclusive(), standing_still(bout.runner, bout.bench.twin):
            try:
                memory, rates = bout.roofline.bytes_per_second(), bout.roofline.rates()
            except torch.OutOfMemoryError:
                return None
        half = self._options.precision is Precision.HALF
        arithmetic = rates.half if half else rates.tf32 if self._options.precision is Precision.TF32 else rates.float32
        return profiles.Ceilings(memory, arithmetic, "measured by the judge: large copies, square matrix products")

    def _audited(self, bout: _Bout) -> Timing:
        """Everything again, and more of it, for a result that is held because no device could be so fast.

        Raises:
            Refused: it is found wrong, or its time is still below the floor.
        """
        with self._stage(Stage.CORRECT), self.lease.shared():
            bout.checks.audit()
        timing, floor = self._timed(bout, plan_for_audit(self._options.max_timing_seconds, bout.bench.places))
        if floor is not None:
            raise Refused(Status.IMPLAUSIBLE, floor.words(timing))
        self._labels.append(AUDITED)
        return timing

    def _start(self, bench: Bench) -> Runner:
        options = self._options
        terms = (str(self.device), options.precision, options.threads, self._level.name, torch.__version__)
        child = self._nursery.take(self._plan(bench), (cache_owner(self._request), self._request.task, *terms))
        self._runner = Runner(child, self.device, Allowance(self._options.timeout_seconds), self._make_way)
        return self._runner

    def _plan(self, bench: Bench) -> ChildPlan:
        memory = self._options.memory_bytes or _most_memory()
        plan = ChildPlan(
            self._level, (), self.device.type == "cuda", memory, processes=self._options.max_processes
        )  # fmt: skip
        if Claim.FILES not in self._level.claims:
            return plan  # it sees every file, so that one child is as good as another, whatever the task
        return replace(
            plan,
            readable=bench.readable,
            importable=self._request.task.import_paths,
            hidden=bench.hidden,
            live_module=self._request.task.kind is TaskKind.MODULE,
        )

    def _make_way(self) -> float:
        """Stop the child, and the next one, while somebody else times; returns for how many seconds it stood still."""
        if self._runner is None or not self.lease.wanted():
            return 0.0
        self._runner.child.freeze()
        try:
            return self.lease.make_way()
        finally:
            self._runner.child.thaw()

    def _own_clock(self) -> float:
        """Seconds that stand still while the candidate waits for the device."""
        return time.monotonic() - self.lease.waited_seconds

    @contextmanager
    def _stage(self, stage: Stage) -> Iterator[None]:
        self._on_stage(stage.value)
        waited, started, before = self.lease.waited_seconds, time.monotonic(), self._seconds.get(stage.value, 0.0)
        try:
            yield
        finally:
            lease = self.lease.waited_seconds - waited
            self._seconds[stage.value] = before + time.monotonic() - started - lease  # an audit repeats stages


def parse_problem(source: str) -> str:
    """Why a text is no candidate file, empty if it is one. Reads the text, never runs it."""
    if not source.strip():
        return "the answer holds no code"
    if len(source.encode()) > _MOST_SOURCE_BYTES:
        return f"the file is larger than {_MOST_SOURCE_BYTES} bytes"
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"not valid Python: {error}"
    return "" if _CLASS in _names(tree) else f"the file defines no class {_CLASS}"


def cache_owner(request: EvaluationRequest) -> tuple[str, str]:
    """Whose compilers' caches a candidate finds: its own, unless whoever asks says that it shares some."""
    return ("shared", request.caches) if request.caches else ("own", request.source)


def _names(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def _most_memory() -> int:
    return int(0.9 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
