"""What the evaluator enforces on this machine, shown by judging samples of its own corpus.

Knows which samples are representative: a few attacks for each mechanism, and honest candidates that must pass. Does not
know how they are judged (`evaluate`) or printed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pike.core.evaluation import EvaluateOptions

_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one sample.

    Attributes:
        mechanism: what it puts to the test, `honest candidates pass` for honest ones.
        sample: its name in the corpus.
        does: what it does, in one sentence.
        owed: the verdict it is owed.
        got: the verdict it got, with its speedup where it is valid; empty where it was not judged.
        ok: whether the owed verdict was delivered; True where nothing was promised here.
        detail: why it was not delivered or not promised.
        seconds: how long it took.
    """

    mechanism: str
    sample: str
    does: str
    owed: str
    got: str
    ok: bool
    detail: str
    seconds: float

    @property
    def promised(self) -> bool:
        """Whether this machine's sandbox promises anything here."""
        return bool(self.got)


def self_test(device: str = "auto", on_trial: Callable[[Trial], None] = lambda _: None) -> tuple[Trial, ...]:
    """What the evaluator enforces on this machine, shown by attacks and honest candidates of its own; a few minutes.

    Args:
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        on_trial: told each result as it comes, from this thread.

    Raises:
        UserError: there is no such device.
        InfraError: no judge could be started.
    """
    from pike.evaluate.client import JudgeClient
    from pike.evaluate.corpus import Bait, Sample, catalogue, judge_sample, obstacle

    trials: list[Trial] = []

    def judged(judge: JudgeClient, sample: Sample, options: EvaluateOptions) -> Trial:
        words = sample.mechanism or "honest candidates pass"
        owed = " or ".join(sample.owed)
        if why := obstacle(sample, options.device, options.sandbox):
            return Trial(words, sample.id, sample.title, owed, "", True, why, 0.0)
        found = judge_sample(judge, sample, options)
        detail = f"{found.problem}: {found.reason}" if found.problem and found.reason else found.problem
        got = f"{found.got}, {found.speedup:.2f}x" if found.speedup else found.got
        return Trial(words, sample.id, sample.title, owed, got, not found.problem, detail, found.seconds)

    with Bait():
        judge = JudgeClient()
        try:
            options = EvaluateOptions(judge.facts(device).device, max_timing_seconds=_SECONDS, correctness_seeds=2)
            for sample in sorted((s for s in catalogue() if s.self_test), key=lambda s: s.task):
                trials.append(judged(judge, sample, options))
                on_trial(trials[-1])
        finally:
            judge.close()
    return tuple(trials)
