"""One candidate on its way through parse, build, load, correct, time and recheck.

Knows what each stage may refuse and which lock it needs, and how several candidates are timed in
the same sessions. Does not know second tries (`judge`).
"""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch

from pike.core.task import TaskKind
from pike.core.verdict import profile as profiles
from pike.core.verdict.evaluation import (
    DEVICE_MEMORY,
    FIRST_CALL,
    LOCK_WAIT,
    SHARED_DEVICE,
    EvaluateOptions,
    Evaluation,
    EvaluationRequest,
    OnStage,
    Precision,
    Stage,
    Status,
    Timing,
    Weights,
)
from pike.judge import processes
from pike.judge.calls.runner import Allowance, Misfit, Runner
from pike.judge.candidate_file import (
    CLASS_NAME,
    OWN_NAME,
    THIRD_PARTY,
    class_name,
    has_third_party_header,
    parse_problem,
)
from pike.judge.checks import Checks
from pike.judge.child.orders import FROM_REFERENCE, OVERWRITTEN, SEEDED, STATE_DICT, BuildOrder, HelloOrder, LoadOrder
from pike.judge.child.wire import Command
from pike.judge.device import host_bytes, is_quiet, number, release_memory
from pike.judge.prepared_task import PreparedTask
from pike.judge.process.child import ChildPlan
from pike.judge.process.fork_server import fork_server
from pike.judge.process.warm_processes import WarmProcesses
from pike.judge.profile.profile import ProfileSubject, take_profile
from pike.judge.refusal import Refused, lacks_device_memory
from pike.judge.roofline.roofline import Floor, Roofline
from pike.judge.sandbox import Claim, SandboxLevel
from pike.judge.timing import cores
from pike.judge.timing.device_lock import DeviceLock
from pike.judge.timing.nvml import reader_of
from pike.judge.timing.reservoir import TimedOutput
from pike.judge.timing.session import Sides, frozen
from pike.judge.timing.timing import Stopwatch, TimingPlan, labels_of, plan_for, plan_for_audit

_HUNG_SECONDS = 20.0
"""With ten times what its last call took, the longest that a timed call may take."""
_WEIGHTS = {STATE_DICT: Weights.STATE_DICT, FROM_REFERENCE: Weights.FROM_REFERENCE, SEEDED: Weights.SEEDED}
OUTPUTS_COPIED = "outputs-copied"
"""Label of a candidate that copied its outputs inside the clock, as its memory cannot be read."""
COMPILED_LATE = "compiled-late"
"""Label of a candidate that still compiled in a timed call, and was judged anew after more calls."""
AUDITED = "audited"
"""Label of a candidate whose time was too good to be true, and plausible on a second try."""
TESTS_NOTHING = "task-tests-nothing"
"""Label of every verdict on a task on which a trivial answer would pass (`evaluate.lint=false`)."""


@dataclass(frozen=True, slots=True)
class JudgeTools:
    """What a judge lends to each evaluation."""

    device: torch.device
    level: SandboxLevel
    warm: WarmProcesses
    lock: DeviceLock
    roofline: Roofline


@dataclass(frozen=True, slots=True)
class Clocked:
    """A timing that is not verified yet.

    Attributes:
        kept: timed outputs to verify.
        floor: what the time lies below, if it is too good to be true.
    """

    timing: Timing
    kept: list[TimedOutput]
    floor: Floor | None


class CandidateEvaluation:
    """One candidate on its way through the stages.

    Attributes:
        misfit: what refused it, if that was an output that did not have the contract's form.
        compiled_late: whether it was refused because it still compiled once that was forbidden.
    """

    def __init__(self, request: EvaluationRequest, tools: JudgeTools, on_stage: OnStage, again: bool = False) -> None:
        self._request, self._on_stage, self._again = request, on_stage, again
        self._options: EvaluateOptions = request.options
        self._device, self._lock, self._warm, self._roofline = tools.device, tools.lock, tools.warm, tools.roofline
        self._level = tools.level
        # Worth importing compilers ahead; decides seconds only, and most of them where nothing is compiled.
        self._compiles = re.search(r"\.compile\(|_inductor", request.source) is not None
        self._seconds: dict[str, float] = {}
        self._runner: Runner | None = None
        self._put_away = False
        self.misfit: Misfit | None = None
        self.compiled_late = False
        self._status, self._reason, self._log = Status.INFRA_ERROR, "", ""
        self._checks: Checks | None = None
        self._timing: Timing | None = None
        self._labels = [COMPILED_LATE] if again else []
        self._weights, self._overwritten = Weights.NONE, False
        self._profile: profiles.Profile | None = None
        self._held_bytes: int | None = None

    def parse(self) -> None:
        """Refuse what is no Python file with a class `ModelNew`."""
        with self._stage(Stage.PARSE):
            wrong = parse_problem(self._request.source)
        if wrong:
            raise Refused(Status.PARSE_ERROR, wrong)
        if has_third_party_header(self._request.source, self._request.task.source):
            self._labels.append(THIRD_PARTY)

    def judge(self, prepared: PreparedTask) -> None:
        """All stages after parsing.

        Raises:
            Refused: one of them refuses the candidate.
        """
        self.admit(prepared)
        (first,) = self.clocked([self], prepared)
        self.conclude(prepared, first)

    def admit(self, prepared: PreparedTask) -> None:
        """The stages before timing; afterwards the candidate waits to be called.

        Raises:
            Refused: one of them refuses the candidate.
        """
        order = prepared.load_order(class_name(self._request.source))
        self._labels += [TESTS_NOTHING] if prepared.tests_nothing else []
        self._labels += [] if order.class_name == CLASS_NAME else [OWN_NAME]
        try:
            return self._admit(prepared, order)
        except Refused as refused:
            if refused.status is not Status.WRONG_OUTPUT or not self._overwritten:
                raise
            first = Refused(refused.status, refused.reason)  # without its frames, which hold tensors
            checks = self._checks
        self.close()
        try:
            self._admit(prepared, replace(order, state_path=""))
        except Refused:
            self._checks, self._weights = checks, Weights.STATE_DICT
            raise first from None

    def _admit(self, prepared: PreparedTask, order: LoadOrder) -> None:
        runner = self._start(prepared)
        held_before = self._build(prepared, runner)
        with self._stage(Stage.LOAD), self._lock.shared():
            up = runner.order(Command.LOAD, order, Status.LOAD_ERROR)
            self._overwritten = up.detail == OVERWRITTEN
            self._weights = _WEIGHTS.get(STATE_DICT if self._overwritten else up.detail, Weights.NONE)
            runner.map(prepared.shape)
            self._labels += [] if runner.fetches else [OUTPUTS_COPIED]
        with self._stage(Stage.CORRECT), self._lock.shared():
            self._checks = Checks(prepared, runner, self._options, self._own_clock)
            self._checks.before_timing(self._request.effort, self._again)
            self._held_bytes = max(0, self._held(runner) - held_before)
            runner.seal()
            release_memory(self._device)
        if self._device.type == "cpu":  # a child that starts up would disturb the timing
            with self._lock.shared():
                self._warm.settle()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A context in which the admitted candidate stands still, its caches put away."""
        assert self._runner
        with self._runner.child.paused():
            if not self._put_away:
                self._put_away = True
                self._warm.take_back(True)
            yield

    def clocked(
        self, group: Sequence["CandidateEvaluation"], prepared: PreparedTask, plan: TimingPlan | None = None
    ) -> list[Clocked]:
        """The timings of admitted candidates, this one among them, in the same sessions.

        Raises:
            Refused: a call failed, or a time is not to be trusted.
        """
        request, slots = self._request, prepared.shape.slots
        plan = plan or plan_for(request.effort, self._options.max_timing_seconds, slots, request.least_speedup)
        reference, runners = prepared.reference_process, [one.runner for one in group]
        cpus = cores.share(self._options.threads, number(self._device))

        def is_alone() -> bool:
            with self._warm.paused(), frozen(reference, *runners):
                return is_quiet(self._device)

        with ExitStack() as stages:
            for one in group:
                stages.enter_context(one._stage(Stage.TIME))
                # One that hangs would keep the device from all others.
                one.runner.call_seconds = _HUNG_SECONDS + 10.0 * one.checks.call_seconds
            quiet = stages.enter_context(self._lock.exclusive(is_alone))
            stages.enter_context(cores.keeping(cpus, reference, runners))
            reader = reader_of(self._device)
            sides = Sides(reference, runners, prepared.draw, reader.read if reader else None)
            telling = [known for known in self.checks.telling if all(known in one.checks.telling for one in group)]
            watch = Stopwatch(sides, plan, telling)
            with self._warm.paused():
                timings = watch.measure()
            with frozen(*runners):
                looks = [self._roofline.check(timing, prepared.need, self._options.tolerance) for timing in timings]
        for one, look in zip(group, looks, strict=True):
            one._labels += ([] if quiet else [SHARED_DEVICE]) + ([look.label] if look.label else [])
        return [
            Clocked(timing, kept, look.below) for timing, kept, look in zip(timings, watch.kept, looks, strict=True)
        ]

    def conclude(self, prepared: PreparedTask, first: Clocked) -> None:
        """Verify what was timed; if no device could be so fast, try and time everything once more.

        Raises:
            Refused: an output is wrong, or the time still lies below the floor.
        """
        timing = self._verified(prepared, first)
        if first.floor is not None:
            with self._stage(Stage.CORRECT), self._lock.shared():
                self.checks.audit()
            plan = plan_for_audit(self._options.max_timing_seconds, prepared.shape.slots)
            (again,) = self.clocked([self], prepared, plan)
            timing = self._verified(prepared, again)
            if again.floor is not None:
                raise Refused(Status.IMPLAUSIBLE, again.floor.words(timing))
            self._labels.append(AUDITED)
        self._labels += labels_of(timing, self._device.type == "cuda")
        self._status, self._reason, self._timing = Status.VALID, "", timing
        self._log = self.runner.child.log()
        if self._request.profile:
            with self._stage(Stage.PROFILE):
                subject = ProfileSubject(prepared, self.runner, self._options, timing, self._lock)
                self._profile, labels = take_profile(subject, self._ceilings(prepared, self.runner))
                self._labels += labels

    @property
    def runner(self) -> Runner:
        """The candidate's child, once it was started."""
        assert self._runner
        return self._runner

    @property
    def checks(self) -> Checks:
        """What was tried, once the candidate is admitted."""
        assert self._checks
        return self._checks

    def refused(self, status: Status, reason: str) -> None:
        """Record what ended the evaluation, with what the child printed.

        Too little device memory is always `resource-limit`, whether the candidate or the judge
        found too little.
        """
        if status in (Status.RESOURCE_LIMIT, Status.INFRA_ERROR) and lacks_device_memory(reason):
            status = Status.RESOURCE_LIMIT
            self._labels.append(DEVICE_MEMORY)
        self._status, self._reason = status, reason
        self._log = self._runner.child.log() if self._runner else ""
        late = status is Status.RUNTIME_ERROR and "Operation not permitted" in reason
        self.compiled_late = late and not self._again and self._runner is not None and self._runner.sealed

    def verdict(self) -> Evaluation:
        """The verdict as far as the evaluation knows it."""
        self._seconds[LOCK_WAIT] = self._lock.waited_seconds
        if self._checks and self._checks.first_call_seconds is not None:
            self._seconds[FIRST_CALL] = self._checks.first_call_seconds
        return Evaluation(
            status=self._status,
            reason=self._reason,
            timing=self._timing,
            error=self._checks.error if self._checks else None,
            labels=tuple(dict.fromkeys([*(self._checks.labels if self._checks else ()), *self._labels])),
            profile=self._profile,
            held_bytes=self._held_bytes,
            weights=self._weights,
            seconds=tuple((name, round(seconds, 3)) for name, seconds in self._seconds.items()),
            log=self._log,
        )

    def close(self) -> None:
        """Kill the child; keep what its compilers left if the candidate is valid; may be repeated."""
        runner, self._runner = self._runner, None
        if runner:
            # A timer would feel a CUDA context end. A failed candidate may still be running and ends at once.
            gently = self._device.type == "cuda" and self._status is Status.VALID
            with self._lock.shared_unless_refused() if gently else nullcontext():
                runner.close()
            self._lock.suspects.remove(runner.child.pids)
            if not self._put_away:
                self._warm.take_back(self._status is Status.VALID)

    def _start(self, prepared: PreparedTask) -> Runner:
        options = self._options
        terms = (str(self._device), options.precision, options.threads, self._level.name, torch.__version__)
        if self._level.forks and self._compiles:
            fork_server().preload(self._device.type == "cpu")
        owner = cache_owner(self._request)
        child = self._warm.take(self._plan(prepared), (owner, self._request.task, *terms), self._request.source)
        self._lock.suspects.append(child.pids)
        allowance = Allowance(options.timeout_seconds)
        self._runner = Runner(child, self._device, allowance, lambda: self._lock.yield_device(child.paused))
        return self._runner

    def _build(self, prepared: PreparedTask, runner: Runner) -> int:
        """Build the candidate; the bytes that were held before."""
        if self._device.type == "cuda":  # a timer would feel a CUDA context being made
            with self._lock.shared():
                runner.order(Command.HELLO, HelloOrder(str(self._device), self._compiles), Status.INFRA_ERROR)
        with self._stage(Stage.BUILD), self._lock.shared() if self._device.type == "cpu" else nullcontext():
            path = runner.child.folder / "candidate.py"
            path.write_text(self._request.source)
            order = BuildOrder(str(path), str(self._device), self._options.threads, self._request.task.import_paths)
            before = 0 if self._device.type == "cuda" else self._held(runner)
            self._warm.prepare(self._plan(prepared))  # while this one builds
            runner.order(Command.BUILD, order, Status.BUILD_ERROR)
        return before

    def _held(self, runner: Runner) -> int:
        """Bytes; what all processes hold of a GPU changes beside other judges, so there the child says it."""
        if self._device.type == "cuda":
            return min(runner.order(Command.HELD).detail, torch.cuda.get_device_properties(self._device).total_memory)
        return sum(sum(processes.exact_bytes(pid)) for pid in runner.child.pids())

    def _verified(self, prepared: PreparedTask, found: Clocked) -> Timing:
        """The timing, once its outputs are verified."""
        with self._stage(Stage.RECHECK), self._lock.shared():
            while found.kept:  # each may be a gigabyte, and the checks that follow need memory too
                self.checks.recheck(found.kept.pop())
            self.checks.after_timing(self._request.effort)
            release_memory(self._device)
        first_ms, ours_ms = 1e3 * (self.checks.first_call_seconds or 0.0), 1e3 * prepared.first_call_seconds
        return replace(found.timing, first_call_ms=first_ms, reference_first_call_ms=ours_ms)

    def _ceilings(self, prepared: PreparedTask, runner: Runner) -> profiles.Ceilings | None:
        """What the device can do, shown beside a profile; None if there is too little memory."""
        with self._lock.exclusive(), frozen(runner, prepared.reference_process):
            try:
                memory, rates = self._roofline.bytes_per_second(), self._roofline.rates()
            except torch.OutOfMemoryError:
                return None
        half = self._options.precision is Precision.HALF
        arithmetic = rates.half if half else rates.tf32 if self._options.precision is Precision.TF32 else rates.float32
        return profiles.Ceilings(memory, arithmetic, "measured by the judge: large copies, square matrix products")

    def _plan(self, prepared: PreparedTask) -> ChildPlan:
        memory = self._options.memory_bytes or int(0.9 * host_bytes())
        cuda = self._device.type == "cuda"
        plan = ChildPlan(self._level, (), cuda, memory, processes=self._options.max_processes)
        if Claim.FILES not in self._level.claims:
            return plan  # it sees every file, so one child fits any task
        return replace(
            plan,
            readable=prepared.readable,
            importable=self._request.task.import_paths,
            hidden=prepared.hidden,
            live_module=self._request.task.kind is TaskKind.MODULE,
        )

    def _own_clock(self) -> float:
        """Seconds that stand still while the candidate waits for the device."""
        return time.monotonic() - self._lock.waited_seconds

    @contextmanager
    def _stage(self, stage: Stage) -> Iterator[None]:
        self._on_stage(stage.value)
        started, before = self._own_clock(), self._seconds.get(stage.value, 0.0)
        try:
            yield
        finally:
            self._seconds[stage.value] = before + self._own_clock() - started  # an audit repeats stages


def cache_owner(request: EvaluationRequest) -> tuple[str, str]:
    """Whose compilers' caches a candidate finds: its own, unless the request names a shared one."""
    return ("shared", request.caches) if request.caches else ("own", request.source)
