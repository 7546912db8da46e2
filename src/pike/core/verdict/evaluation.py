"""The verdict on one candidate and the terms under which it was reached.

Knows every status of a verdict, and makes impossible verdicts unrepresentable: a timing exists only
on a valid candidate. Does not know how a verdict is reached (`judge`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pike.core.task import Task
from pike.core.text.printable import printable
from pike.core.verdict.profile import Profile

FASTER_MARGIN = 0.01
"""The least gain that counts as faster; less may come from the order of pages in memory."""

CONTENDED = 0.10
"""Times are unreliable if other programs kept a thread waiting for more than this share of the
time."""

SHARED_DEVICE = "kernels-of-others"
"""Label of a time that was taken although other programs' kernels still ran on the GPU."""
ON_SOME_VALUES = "gain-depends-on-values"
"""Label of a candidate that gains clearly less under an input distribution than on the task's."""

FIRST_CALL = "first-call"
"""Name under which an evaluation's seconds hold the candidate's first call, compiling included."""

SET_UP = "set-up"
"""Name under which an evaluation's seconds hold what no stage counts: preparing the task, starting and
ending processes, importing compilers ahead."""

LOCK_WAIT = "lock-wait"
"""Name under which an evaluation's seconds hold the time spent waiting for the device lock."""

DEVICE_MEMORY = "device-memory"
"""Label of a `resource-limit` verdict: the device had too little free memory for this
evaluation."""


class Status(StrEnum):
    """The outcome of an evaluation; everything but `VALID` names what refused the candidate."""

    VALID = "valid"
    PARSE_ERROR = "parse-error"
    BUILD_ERROR = "build-error"
    LOAD_ERROR = "load-error"
    RUNTIME_ERROR = "runtime-error"
    BAD_CONTRACT = "bad-contract"
    WRONG_OUTPUT = "wrong-output"
    TIMEOUT = "timeout"
    RESOURCE_LIMIT = "resource-limit"
    SANDBOX_VIOLATION = "sandbox-violation"
    UNTRUSTED_TIMING = "untrusted-timing"
    IMPLAUSIBLE = "implausible"
    INFRA_ERROR = "infra-error"


class Stage(StrEnum):
    """The stages of an evaluation, in order."""

    PARSE = "parse"
    BUILD = "build"
    LOAD = "load"
    CORRECT = "correct"
    TIME = "time"
    RECHECK = "recheck"
    PROFILE = "profile"
    """Only on request, and only once the candidate is known to be valid."""


class Tolerance(StrEnum):
    """How far an output may lie from the reference."""

    STRICT = "strict"
    """The error budget: a small multiple of the reference's own error at the declared precision."""
    PAPER = "paper"
    """`allclose(atol=1e-2, rtol=1e-2)`, as published."""


class Precision(StrEnum):
    """The arithmetic a candidate may use inside; sets the error budget."""

    SAME = "same"
    TF32 = "tf32"
    HALF = "half"


class Weights(StrEnum):
    """How the reference's weights reached the candidate."""

    STATE_DICT = "state-dict"
    FROM_REFERENCE = "from-reference"
    SEEDED = "seeded"
    NONE = "none"


class Effort(StrEnum):
    """How much measuring an evaluation does."""

    SEARCH = "search"
    """Cheap: enough to rank candidates while searching."""
    FINAL = "final"
    """Thorough: what is reported at the end of a run."""
    BESIDE = "beside"
    """For baselines: as `final`, without held-out shapes and other numbers. So a compiler has one
    build when it is timed, that for the judged call."""


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """The terms of an evaluation; all of them reach the verdict.

    Attributes:
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        tolerance: which correctness rule decides.
        precision: the arithmetic that candidates may use.
        timeout_seconds: limit on the candidate's own time (building, running), without waits for
            the device lock.
        sandbox: `auto`, `podman`, `docker`, `apptainer`, `container` (any of these), `bubblewrap`
            or `process`.
        memory_bytes: the most host memory of all the child's processes together; 0 means nine
            tenths of the machine's. On a CPU also the most address space of each.
        max_processes: the most processes a child may run at once, compilers included; eight times
            as many threads.
        threads: CPU threads for both sides; 0 means all that the judge may use.
        correctness_seeds: how many secret input draws are checked before timing.
        max_timing_seconds: the most wall-clock time spent timing (reference and candidate
            together).
        lint: refuse a task on which a trivial answer (zeros, a constant, another input's) would
            pass; otherwise every verdict on it is labelled.
    """

    device: str = "auto"
    tolerance: Tolerance = Tolerance.STRICT
    precision: Precision = Precision.SAME
    timeout_seconds: float = 900.0
    sandbox: str = "auto"
    memory_bytes: int = 0
    max_processes: int = 512
    threads: int = 0
    correctness_seeds: int = 3
    max_timing_seconds: float = 8.0
    lint: bool = True

    @property
    def preparation(self) -> tuple[object, ...]:
        """The terms on which a judge prepares a task; the others may differ between candidates."""
        return self.device, self.precision, self.threads, self.lint


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """Everything a judge needs for one verdict.

    Attributes:
        least_speedup: while searching, timing ends early once the candidate is certainly slower
            than this; the verdict then has a wide interval.
        profile: also profile a valid candidate.
        caches: a name under which candidates of one task and the same terms share compilers'
            caches; empty for the candidate's own. Not for untrusted candidates: the cache of one
            decides what the next one runs.
        alone: all other workers of the device released its memory and wait, so that what does not
            fit now never will.
        limit_seconds: the run's limit of time, 0 for none; a preflight refuses a task of which no
            verdict can come within it.
    """

    task: Task
    source: str
    options: EvaluateOptions = field(default_factory=EvaluateOptions)
    effort: Effort = Effort.SEARCH
    least_speedup: float = 0.0
    profile: bool = False
    caches: str = ""
    alone: bool = False
    limit_seconds: float = 0.0


Requests = Sequence[EvaluationRequest]
"""Candidates for one task that are judged side by side."""
OnStage = Callable[[str], None]
"""Told what is being done to a candidate. Of an executor, called in the event loop's thread: `waiting`,
then the name of the worker that took it (`worker 2 on GPU 1`), then stage names."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """How fast calls are if several inputs are released together; reported beside the latency.

    Attributes:
        inputs: how many were released together.
        reference_ms: median time of the reference for each input.
        candidate_ms: median time of the candidate for each input.
        speedup: as in `Timing`.
        speedup_ci95: as in `Timing`.
        blocks: interleaved blocks that count.
    """

    inputs: int
    reference_ms: float
    candidate_ms: float
    speedup: float
    speedup_ci95: tuple[float, float]
    blocks: int


@dataclass(frozen=True, slots=True)
class WorstInputs:
    """The input distribution under which a finalist gains least; a speedup is as in `Timing`."""

    distribution: str
    speedup: float
    speedup_ci95: tuple[float, float]


@dataclass(frozen=True, slots=True)
class DeviceState:
    """The state of a GPU while it was timed; a quantity is None if the driver does not tell it.

    Attributes:
        reference_sm_mhz: clock of the multiprocessors, median over the reference's blocks that
            count.
        candidate_sm_mhz: the same for the candidate's; a heavier load may well run at a lower
            clock.
        memory_mhz: clock of the memory, median over all blocks that count.
        most_celsius: highest temperature.
        most_watts: highest power draw, as averaged by the driver.
        reasons: all reasons that held the clocks down, with ordinary ones (`idle`, `power cap`).
        spoiled: (reason, pairs of blocks) that do not count, unless too few others are left.
    """

    reference_sm_mhz: float | None = None
    candidate_sm_mhz: float | None = None
    memory_mhz: float | None = None
    most_celsius: float | None = None
    most_watts: float | None = None
    reasons: tuple[str, ...] = ()
    spoiled: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """How fast a valid candidate is, by the judge's clock.

    Attributes:
        reference_ms: median time of one reference call, transfer overhead subtracted.
        candidate_ms: median time of one candidate call, transfer overhead subtracted.
        speedup: exp of the median over blocks of log(reference / candidate). Where other programs
            disturbed the times, only the part of a gain or loss that is certain.
        speedup_ci95: 95 % bootstrap interval of `speedup` over blocks, wider where disturbed.
        blocks: interleaved blocks that count; 0 for an imported time, which has no interval.
        calls: timed calls of the candidate.
        overhead_ms: the calibrated transfer overhead that was subtracted from both sides.
        dropped_blocks: pairs of blocks that do not count because other programs held the CPU or, on
            a GPU, for a reason in `state.spoiled`.
        contention: share of the time in which other programs kept the timed processes waiting for a
            CPU, median over the blocks that count (0 if the kernel does not tell).
        throughput: several inputs released together; measured only for what is reported.
        state: clocks, temperature and power of a GPU; None on a CPU or if the driver tells nothing.
        worst: the input distribution that lets it gain least; measured only for what is reported.
        first_call_ms: the candidate's first call after it was loaded, transfer included.
        reference_first_call_ms: the same of the reference.
    """

    reference_ms: float
    candidate_ms: float
    speedup: float
    speedup_ci95: tuple[float, float]
    blocks: int
    calls: int
    overhead_ms: float
    dropped_blocks: int = 0
    contention: float = 0.0
    throughput: Throughput | None = None
    state: DeviceState | None = None
    worst: WorstInputs | None = None
    first_call_ms: float | None = None
    reference_first_call_ms: float | None = None

    @property
    def pays_after_calls(self) -> int | None:
        """After how many calls a slower first call is made up for; None if it is not `faster`."""
        late = (self.first_call_ms or 0.0) - (self.reference_first_call_ms or 0.0)
        saved = self.reference_ms - self.candidate_ms
        return 0 if late <= 0.0 else math.ceil(late / saved) if saved > 0.0 and self.faster else None

    @property
    def disturbed(self) -> bool:
        """Whether other programs held the CPU too much for these times to be relied on."""
        return self.contention > CONTENDED

    @property
    def faster(self) -> bool:
        """Whether the candidate is called faster than the reference.

        A one-sided test: the lower end of the 95 % interval (97.5 % one-sided) lies above 1 by
        `FASTER_MARGIN`. Of an imported time the speedup itself must.
        """
        least = self.speedup_ci95[0] if self.blocks else self.speedup
        return least > 1.0 + FASTER_MARGIN


@dataclass(frozen=True, slots=True)
class OutputError:
    """The worst error over all checked inputs and outputs.

    Attributes:
        max_abs: largest absolute difference from the float64 reference.
        rms: largest root-mean-square difference of one output.
        budget_max_abs: what `max_abs` was allowed to be on the worst output.
        budget_rms: what `rms` was allowed to be on the worst output.
        vacuous: True where the `paper` tolerance would accept an all-zero answer.
    """

    max_abs: float
    rms: float
    budget_max_abs: float
    budget_rms: float
    vacuous: bool = False


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The verdict on one candidate.

    Attributes:
        status: valid, or what refused it.
        reason: one sentence, empty when valid.
        timing: present exactly when `status` is valid.
        error: present whenever outputs were compared.
        weights: how the reference's weights reached the candidate.
        tolerance: the rule that decided.
        precision: the arithmetic that was allowed.
        device: the device's name, for example `NVIDIA H100 80GB HBM3` or `cpu (AMD EPYC, 2
            threads)`.
        sandbox: the sandbox level and what it did not enforce.
        torch_version: of the judge and the child.
        seconds: (stage, seconds) pairs, waiting for the device lock excluded. `lock-wait` holds
            that time, and `first-call` the part of `correct` in which the candidate answered for
            the first time.
        log: the end of the candidate's output and the diagnostics of the stage that refused it.
        labels: findings that refuse nothing, for example `reuses-output-buffer`, or distributions
            on which nothing could be tested. Those that rest on a profile begin with `by-profile:`.
        profile: where its time goes, if the request asked for it and the candidate is valid.
        held_bytes: memory that the candidate took from its build to its first answers, on the
            device; None if it gave none. On a GPU it is what torch holds in the candidate's
            process, by that process's own count.
    """

    status: Status
    reason: str = ""
    timing: Timing | None = None
    error: OutputError | None = None
    weights: Weights = Weights.NONE
    tolerance: Tolerance = Tolerance.STRICT
    precision: Precision = Precision.SAME
    device: str = ""
    sandbox: str = ""
    torch_version: str = ""
    seconds: tuple[tuple[str, float], ...] = ()
    log: str = ""
    labels: tuple[str, ...] = ()
    profile: Profile | None = None
    held_bytes: int | None = None

    def __post_init__(self) -> None:
        if (self.timing is not None) != (self.status is Status.VALID):
            raise ValueError(f"a timing exists exactly on a valid candidate, status is {self.status.value}")
        if self.profile is not None and self.status is not Status.VALID:
            raise ValueError(f"only a valid candidate has a profile, status is {self.status.value}")
        for name in ("reason", "log"):  # a candidate wrote them, and they are shown in many places
            object.__setattr__(self, name, printable(getattr(self, name)))

    @property
    def valid(self) -> bool:
        """Whether the candidate is correct and timed."""
        return self.status is Status.VALID

    @property
    def disturbed(self) -> bool:
        """Whether other programs held the CPU or the GPU too much for its times to be relied on."""
        return SHARED_DEVICE in self.labels or (self.timing is not None and self.timing.disturbed)

    @property
    def candidate_ms(self) -> float | None:
        """Median milliseconds of one candidate call, None unless valid."""
        return self.timing.candidate_ms if self.timing else None

    @property
    def speedup(self) -> float | None:
        """Reference time over candidate time, None unless valid."""
        return self.timing.speedup if self.timing else None

    @property
    def own_seconds(self) -> float:
        """What all stages took, without waits and set-up; the first call is a part of `correct`."""
        return sum(seconds for name, seconds in self.seconds if name not in (SET_UP, LOCK_WAIT, FIRST_CALL))

    @property
    def cold_start_seconds(self) -> float | None:
        """Seconds to import, load and first answer in a fresh process; None if it did not answer.

        A compiler whose caches were kept takes less time.
        """
        known = dict(self.seconds)
        parts = [known.get(name) for name in (Stage.BUILD, Stage.LOAD, FIRST_CALL)]
        return None if None in parts else sum(part or 0.0 for part in parts)

    def flat(self) -> dict[str, Any]:
        """The verdict as the flat object that `pike evaluate --json` prints."""
        timing, error = self.timing, self.error
        throughput = timing.throughput if timing else None
        state = timing.state if timing else None
        worst = timing.worst if timing else None
        return {
            **_values(self, "status", "reason"),
            **_values(timing, "speedup", "speedup_ci95", "reference_ms", "candidate_ms", "overhead_ms"),
            **_values(timing, "blocks", "calls", "dropped_blocks", "contention"),
            **_values(state, "reference_sm_mhz", "candidate_sm_mhz", "memory_mhz", "most_celsius", "most_watts"),
            "throttle_reasons": list(state.reasons) if state else None,
            "spoiled_blocks": dict(state.spoiled) if state else None,
            **_values(throughput, "inputs", "speedup", "speedup_ci95", prefix="throughput_"),
            "worst_inputs": worst.distribution if worst else None,
            **_values(worst, "speedup", "speedup_ci95", prefix="worst_"),
            **_values(timing, "first_call_ms", "reference_first_call_ms", "pays_after_calls"),
            "max_abs_error": error.max_abs if error else None,
            "rms_error": error.rms if error else None,
            **_values(error, "budget_max_abs", "budget_rms", "vacuous"),
            **_values(self, "weights", "tolerance", "precision", "device", "sandbox", "torch_version"),
            "seconds": dict(self.seconds),
            **_values(self, "cold_start_seconds", "held_bytes", "labels"),
            "profile": self.profile.flat() if self.profile else None,
            "log": self.log,
        }


def _values(record: object, *names: str, prefix: str = "") -> dict[str, Any]:
    """Some fields of a record as plain values, None for each where there is no record."""
    return {prefix + name: _plain(getattr(record, name, None)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value.value if isinstance(value, StrEnum) else value
