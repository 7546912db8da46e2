"""What the judge enforces on this machine, shown by samples of its own corpus.

Knows that a verdict is expected of each sample: attacks for each mechanism must be refused, and honest
candidates must pass. Does not know how they are judged (`judge`) or printed.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from pike.core.verdict.evaluation import EvaluateOptions

_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class SelfTestResult:
    """The result of one sample.

    Attributes:
        mechanism: what it tests, `honest candidates pass` for honest ones.
        sample: its name in the corpus.
        does: what it does, in one sentence.
        expected: the expected verdict.
        got: the verdict it got, with the speedup of a valid one; empty where it was not judged.
        ok: whether it got the expected verdict; True where nothing is promised here.
        detail: why it did not get it, or why nothing is promised.
        seconds: how long it took.
    """

    mechanism: str
    sample: str
    does: str
    expected: str
    got: str
    ok: bool
    detail: str
    seconds: float

    @property
    def promised(self) -> bool:
        """Whether this machine's sandbox promises anything here."""
        return bool(self.got)


def self_test(
    device: str = "auto", on_result: Callable[[SelfTestResult], None] = lambda _: None
) -> tuple[SelfTestResult, ...]:
    """Show what the judge enforces here, by attacks and honest candidates of its own.

    It takes a few minutes.

    >>> all(result.ok for result in pike.self_test("cpu"))  # doctest: +SKIP
    True

    Args:
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        on_result: called with each result as it comes.

    Raises:
        UserError: there is no such device.
        InfraError: no judge could be started.
    """
    from pike.corpus import Bait, CorpusSample, catalogue, judge_sample, obstacle
    from pike.judge.client import JudgeClient

    results: list[SelfTestResult] = []

    def judged(judge: JudgeClient, sample: CorpusSample, options: EvaluateOptions) -> SelfTestResult:
        words = sample.mechanism or "honest candidates pass"
        expected = " or ".join(sample.expected)
        if why := obstacle(sample, options.device, options.sandbox):
            return SelfTestResult(words, sample.id, sample.title, expected, "", True, why, 0.0)
        found = judge_sample(judge, sample, options)
        detail = f"{found.problem}: {found.reason}" if found.problem and found.reason else found.problem
        got = f"{found.got}, {found.speedup:.2f}x" if found.speedup else found.got
        return SelfTestResult(words, sample.id, sample.title, expected, got, not found.problem, detail, found.seconds)

    with Bait(), closing(JudgeClient()) as judge:
        options = EvaluateOptions(judge.facts(device).device, max_timing_seconds=_SECONDS, correctness_seeds=2)
        for sample in sorted((s for s in catalogue() if s.self_test), key=lambda s: s.task):
            results.append(judged(judge, sample, options))
            on_result(results[-1])
    return tuple(results)
