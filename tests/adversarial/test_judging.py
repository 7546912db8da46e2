"""How a verdict is read against what a sample is expected."""

from dataclasses import replace

import pytest

from pike.core.verdict.evaluation import Evaluation, Status, Timing
from pike.corpus import CorpusSample, catalogue
from pike.corpus.judging import problem


def verdict(speedup: float = 1.0, low: float = 0.95, status: Status = Status.VALID, log: str = "") -> Evaluation:
    timing = Timing(1.0, 1.0 / speedup, speedup, (low, 2 * speedup - low), 12, 60, 0.01)
    return Evaluation(status, timing=timing if status is Status.VALID else None, log=log)


@pytest.fixture
def neutral() -> CorpusSample:
    return next(sample for sample in catalogue() if sample.expected == ("neutral",) and not sample.label)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (verdict(), ""),
        (verdict(0.2, 0.1), ""),
        (verdict(1.6, 0.9), ""),
        (verdict(5.0, 4.0), "gain of 5.00x"),
        (verdict(log="REACHED the secret"), "must not reach"),
        (verdict(log="x" * 100_000), "not capped"),
        (verdict(status=Status.WRONG_OUTPUT), "wrong-output instead of neutral"),
        (verdict(status=Status.INFRA_ERROR), "infra-error instead of neutral"),
    ],
)
def test_neutral_means_accepted_without_a_gain(neutral: CorpusSample, found: Evaluation, words: str) -> None:
    said = problem(neutral, found)
    assert words in said if words else said == ""


def test_refused_means_any_refusal_but_a_fault_of_ours(neutral: CorpusSample) -> None:
    sample = replace(neutral, expected=("refused",))
    assert problem(sample, verdict(status=Status.TIMEOUT)) == ""
    assert problem(sample, verdict(status=Status.INFRA_ERROR)) != ""
    assert problem(sample, verdict()) == "accepted instead of refused"


def test_a_label_that_is_expected_must_be_there(neutral: CorpusSample) -> None:
    sample = replace(neutral, label="reuses-output-buffer")
    assert "without the label" in problem(sample, verdict())
    assert problem(sample, replace(verdict(), labels=("reuses-output-buffer",))) == ""


def test_a_label_that_rests_on_times_is_not_missed_where_they_are_unreliable(neutral: CorpusSample) -> None:
    sample, found = replace(neutral, label="gain-depends-on-values", expected=("labelled",)), verdict(5.0, 4.0)
    assert "without the label" in problem(sample, found)
    assert found.timing is not None
    assert problem(sample, replace(found, timing=replace(found.timing, contention=0.5))) == ""
    assert problem(sample, replace(found, labels=("gain-depends-on-values",))) == ""
