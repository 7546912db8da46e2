"""The verdict on one candidate and the terms under which it was reached.

Knows every status a verdict can have and makes impossible verdicts unrepresentable: a timing exists only on a
valid candidate. Does not know how a verdict is reached (`evaluate`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pike.core.profile import Profile
from pike.core.task import Task

FASTER_MARGIN = 0.01
"""How much faster than the reference counts as faster; less may be the order of pages in memory."""

CONTENDED = 0.10
"""Times are unreliable while other programs kept some thread waiting for a CPU for more than this share of the time."""

SHARED_DEVICE = "kernels-of-others"
"""Label of a time that was taken while other programs' kernels ran on the GPU, for longer than was waited."""

FIRST_CALL = "first-call"
"""Where an evaluation tells how long a candidate's first call took, with all that was compiled in it."""


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


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """The terms of an evaluation; all of them reach the verdict.

    Attributes:
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        tolerance: which correctness rule decides.
        precision: the arithmetic that candidates may use.
        timeout_seconds: limit on the candidate's own time (building, running), waiting for leases excluded.
        sandbox: `auto`, `podman`, `docker`, `apptainer`, `container` (any of these), `bubblewrap` or `process`.
        memory_bytes: the most host memory that all processes of the child may use together; 0 means nine tenths of the
            machine's. On a CPU also the most address space of each.
        max_processes: the most processes a child may run at once, compilers included; eight times as many threads.
        threads: CPU threads for both sides; 0 means all that the judge may use.
        correctness_seeds: how many secret input draws are checked before timing.
        max_timing_seconds: the most wall-clock time spent timing (reference and candidate together).
        lint: refuse a task on which an answer that needs no model (zeros, a constant, another input's) would pass.
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
    max_timing_seconds: float = 20.0
    lint: bool = True


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """Everything a judge needs for one verdict.

    Attributes:
        task: the problem.
        source: the candidate.
        options: the terms.
        effort: how much is measured.
        beat: while searching, timing ends early once the candidate is certainly slower than this speedup; its verdict
            then has a wide interval.
        profile: also say where the time of a valid candidate goes.
        caches: a name under which candidates of one task and the same terms share what compilers leave behind; empty
            for the candidate's own. Not for candidates of strangers: who fills a cache decides what the next one runs.
    """

    task: Task
    source: str
    options: EvaluateOptions = field(default_factory=EvaluateOptions)
    effort: Effort = Effort.SEARCH
    beat: float = 0.0
    profile: bool = False
    caches: str = ""


@dataclass(frozen=True, slots=True)
class Throughput:
    """How fast calls are when several inputs are released together; reported beside the latency, never instead of it.

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
class DeviceState:
    """In what state a GPU was while it was timed; a quantity is None where the driver does not tell it.

    Attributes:
        reference_sm_mhz: clock of the multiprocessors, median over the reference's blocks that count.
        candidate_sm_mhz: the same for the candidate's; a heavier load may well run at a lower clock.
        memory_mhz: clock of the memory, median over all blocks that count.
        most_celsius: highest temperature.
        most_watts: highest power draw, as averaged by the driver.
        reasons: everything that was seen to hold the clocks down, ordinary reasons (`idle`, `power cap`) included.
        spoiled: (what, pairs of blocks) that a protection of the card or a change of its clock spoiled; they do not
            count, unless too few others are left.
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
        reference_ms: median time of one reference call, hand-over overhead subtracted.
        candidate_ms: median time of one candidate call, hand-over overhead subtracted.
        speedup: exp of the median over blocks of log(reference / candidate).
        speedup_ci95: 95 % bootstrap interval of `speedup` over blocks.
        blocks: interleaved blocks that count.
        calls: timed calls of the candidate.
        overhead_ms: the calibrated hand-over overhead that was subtracted from both sides.
        dropped_blocks: pairs of blocks that do not count because other programs held the CPU meanwhile or, on a GPU,
            for a reason in `state.spoiled`.
        contention: share of the time in which other programs kept what is timed waiting for a CPU, median over the
            blocks that count (0 where the kernel does not tell).
        throughput: several inputs released together; only measured for what is reported, and only where they fit.
        state: clocks, temperature and power of a GPU; None on a CPU and where the driver tells nothing.
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

    @property
    def disturbed(self) -> bool:
        """Whether other programs held the CPU too much for these times to be relied on."""
        return self.contention > CONTENDED

    @property
    def faster(self) -> bool:
        """Whether the candidate is called faster than the reference.

        A one-sided test: the lower end of the 95 % interval (97.5 % one-sided) lies above 1 by `FASTER_MARGIN`.
        """
        return self.speedup_ci95[0] > 1.0 + FASTER_MARGIN


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
        device: the device's name, for example `NVIDIA H100 80GB HBM3` or `cpu (AMD EPYC, 2 threads)`.
        sandbox: which sandbox level held the candidate and what it did not enforce.
        torch_version: of the judge and the child.
        seconds: (stage, seconds) pairs, lease waits excluded; `lease` has the time spent waiting and
            `first-call` that part of `correct` in which the candidate answered for the first time.
        log: the end of what the candidate printed and the diagnostics of the stage that refused it.
        labels: what was noticed and refuses nothing, for example `reuses-output-buffer`, or kinds of inputs on which
            nothing could be tested; those that rest on a profile begin with `by-profile:`.
        profile: where its time goes, if that was asked for and it is valid.
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

    def __post_init__(self) -> None:
        if (self.timing is not None) != (self.status is Status.VALID):
            raise ValueError(f"a timing exists exactly on a valid candidate, status is {self.status.value}")
        if self.profile is not None and self.status is not Status.VALID:
            raise ValueError(f"only a valid candidate has a profile, status is {self.status.value}")

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

    def flat(self) -> dict[str, Any]:
        """The verdict as the flat object that `pike evaluate --json` prints."""
        timing, error = self.timing, self.error
        throughput = timing.throughput if timing else None
        state = timing.state if timing else None
        return {
            "status": self.status.value,
            "reason": self.reason,
            "speedup": timing.speedup if timing else None,
            "speedup_ci95": list(timing.speedup_ci95) if timing else None,
            "reference_ms": timing.reference_ms if timing else None,
            "candidate_ms": timing.candidate_ms if timing else None,
            "overhead_ms": timing.overhead_ms if timing else None,
            "blocks": timing.blocks if timing else None,
            "calls": timing.calls if timing else None,
            "dropped_blocks": timing.dropped_blocks if timing else None,
            "contention": timing.contention if timing else None,
            "reference_sm_mhz": state.reference_sm_mhz if state else None,
            "candidate_sm_mhz": state.candidate_sm_mhz if state else None,
            "memory_mhz": state.memory_mhz if state else None,
            "most_celsius": state.most_celsius if state else None,
            "most_watts": state.most_watts if state else None,
            "throttle_reasons": list(state.reasons) if state else None,
            "spoiled_blocks": dict(state.spoiled) if state else None,
            "throughput_inputs": throughput.inputs if throughput else None,
            "throughput_speedup": throughput.speedup if throughput else None,
            "throughput_speedup_ci95": list(throughput.speedup_ci95) if throughput else None,
            "max_abs_error": error.max_abs if error else None,
            "rms_error": error.rms if error else None,
            "budget_max_abs": error.budget_max_abs if error else None,
            "budget_rms": error.budget_rms if error else None,
            "vacuous": error.vacuous if error else None,
            "weights": self.weights.value,
            "tolerance": self.tolerance.value,
            "precision": self.precision.value,
            "device": self.device,
            "sandbox": self.sandbox,
            "torch_version": self.torch_version,
            "seconds": dict(self.seconds),
            "labels": list(self.labels),
            "profile": self.profile.flat() if self.profile else None,
            "log": self.log,
        }
