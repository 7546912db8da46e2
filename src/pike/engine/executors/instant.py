"""A deterministic fake: the verdict is a pure function of the source text, and nothing is run.

Knows one comment line and a hash. Does not know torch, processes or clocks. It ships because tests,
the overhead benchmark and the strategy simulator all need a judge that costs nothing and never
lies.

A candidate may carry a line such as::

    # pike-instant: valid 3.5ms
    # pike-instant: valid 3.5ms final 4.2ms
    # pike-instant: wrong-output off by 0.3

Without one, a hash of the source decides. About two in three are valid; they take 0.25 to 1.25 of
the reference time.
"""

import asyncio
import hashlib
import re
from dataclasses import dataclass

from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import (
    Effort,
    Evaluation,
    EvaluationRequest,
    OnStage,
    OutputError,
    Status,
    Timing,
    Weights,
)
from pike.core.verdict.profile import Hotspot, Profile
from pike.engine.executors.contract import Executor

_LINE = re.compile(r"^\s*#\s*pike-instant:\s*(?P<status>[a-z-]+)\s*(?P<rest>.*)$", re.MULTILINE)
_MS = re.compile(r"(?P<name>final\s+)?(?P<ms>[0-9.]+)\s*ms")
_REFUSALS = (Status.BUILD_ERROR, Status.RUNTIME_ERROR, Status.WRONG_OUTPUT, Status.TIMEOUT)
_PROFILE = Profile("no profiler (nothing is run)", "Made up.", (Hotspot("instant::work", 0.75, 2.0),), busy_share=0.75)


@dataclass(frozen=True, slots=True)
class _Draw:
    status: Status
    ms: float
    final_ms: float
    reason: str


class InstantExecutor(Executor):
    """Gives verdicts at once.

    Args:
        reference_ms: the time that the original model is said to take.
        delay_seconds: how long each verdict takes, for tests of what happens meanwhile.
    """

    def __init__(self, reference_ms: float = 10.0, delay_seconds: float = 0.0) -> None:
        self._reference_ms = reference_ms
        self._delay_seconds = delay_seconds

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The verdict that `request.source` asks for, or that its hash draws."""
        if on_stage is not None:
            on_stage("build")
        await asyncio.sleep(self._delay_seconds)
        return instant_verdict(request, self._reference_ms)

    async def facts(self, device: str) -> DeviceFacts:
        """A device that does not exist."""
        return DeviceFacts(device="cpu", name="instant", versions=(("torch", "instant"),))

    async def aclose(self) -> None:
        """Nothing to stop."""


def instant_verdict(request: EvaluationRequest, reference_ms: float = 10.0) -> Evaluation:
    """The verdict as a pure function of the request; times in milliseconds."""
    draw = _read(request.source) or _hashed(request.source, reference_ms)
    ms = draw.ms if request.effort is Effort.SEARCH else draw.final_ms
    valid = draw.status is Status.VALID
    speedup = reference_ms / ms
    return Evaluation(
        status=draw.status,
        reason="" if valid else draw.reason,
        timing=Timing(reference_ms, ms, speedup, (0.98 * speedup, 1.02 * speedup), 10, 100, 0.0) if valid else None,
        error=OutputError(1e-7, 1e-8, 1e-5, 1e-6) if valid else None,
        weights=Weights.STATE_DICT if valid else Weights.NONE,
        tolerance=request.options.tolerance,
        precision=request.options.precision,
        device="instant",
        sandbox="none (nothing is run)",
        torch_version="instant",
        profile=_PROFILE if request.profile and valid else None,
    )


def _read(source: str) -> _Draw | None:
    found = _LINE.search(source)
    if found is None:
        return None
    times = {bool(item["name"]): float(item["ms"]) for item in _MS.finditer(found["rest"])}
    ms = times.get(False, 1.0)
    return _Draw(Status(found["status"]), ms, times.get(True, ms), found["rest"].strip() or "instant refusal")


def _hashed(source: str, reference_ms: float) -> _Draw:
    digest = hashlib.sha256(source.encode()).digest()
    if digest[0] >= 170:
        status = _REFUSALS[digest[1] % len(_REFUSALS)]
        return _Draw(status, 1.0, 1.0, f"the hash of the source says {status.value}")
    ms = reference_ms * (0.25 + int.from_bytes(digest[2:4], "big") / 65535)
    return _Draw(Status.VALID, ms, ms, "")
