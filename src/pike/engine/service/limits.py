"""What a submission may ask for at most, and how much one owner may.

Knows bounds and quotas. Does not know tokens, HTTP or the machine.
"""

import re
from dataclasses import dataclass

from pike.core.verdict.evaluation import EvaluateOptions
from pike.engine.executors.service.wire import Asks, Submission

MOST_CANDIDATES = 64
MOST_SOURCE = 1 << 20
"""Characters of one candidate."""
DIGEST = re.compile(r"[0-9a-f]{64}")
DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]{1,2})?")
_MOST = {
    "timeout_seconds": 3600.0,
    "max_timing_seconds": 600.0,
    "correctness_seeds": 100,
    "max_processes": 4096,
    "threads": 1024,
    "memory_bytes": 1 << 50,
}
_NONE_FOR_ALL = ("threads", "memory_bytes")


@dataclass(frozen=True, slots=True)
class Usage:
    """What one owner has under way, what it submitted within the hour, and when the first of that."""

    queued: int
    within_hour: int
    oldest: float


@dataclass(frozen=True, slots=True)
class Quota:
    """How much one owner may have queued at once, and submit within an hour; 0 for no limit."""

    most_queued: int = 0
    most_per_hour: int = 0

    def wait_seconds(self, usage: Usage, now: float) -> float:
        """How long to wait before submitting again; 0 for not at all."""
        if self.most_per_hour and usage.within_hour >= self.most_per_hour:
            return max(1.0, usage.oldest + 3600.0 - now)
        return 2.0 if self.most_queued and usage.queued >= self.most_queued else 0.0


def refused(submission: Submission, sandbox: str) -> str:
    """Why a service does not take a submission, empty if it does.

    Args:
        submission: what was asked.
        sandbox: the sandbox that the service's owner chose; a candidate cannot choose a weaker one.
    """
    candidates = submission.candidates
    if not DIGEST.fullmatch(submission.parcel):
        return "parcel: give the SHA-256 of a parcel, 64 hexadecimal digits"
    if not 1 <= len(candidates) <= (MOST_CANDIDATES if submission.asks is Asks.VERDICTS else 1):
        return f"candidates: give 1 to {MOST_CANDIDATES}, and one where no verdicts are asked for"
    if any(len(one.source) > MOST_SOURCE for one in candidates):
        return f"source: a candidate has at most {MOST_SOURCE:,} characters"
    if any(not 0.0 <= one.least_speedup < float("inf") for one in candidates):
        return "least_speedup: give a number from 0"
    if len({one.options.preparation for one in candidates}) > 1:
        return "options: candidates of one submission are judged on the same device, precision, threads and lint"
    return next(filter(None, (_option(one.options, sandbox) for one in candidates)), "")


def _option(options: EvaluateOptions, sandbox: str) -> str:
    if not DEVICE.fullmatch(options.device):
        return "options.device: give auto, cpu, cuda or cuda:N"
    if options.sandbox not in ("auto", sandbox):
        return f"options.sandbox: this service judges at '{sandbox}'; leave it out"
    for name, most in _MOST.items():
        value = getattr(options, name)
        if not (0 <= value <= most and (value or name in _NONE_FOR_ALL)):
            return f"options.{name}: give a number above 0, at most {most:,}"
    return ""
