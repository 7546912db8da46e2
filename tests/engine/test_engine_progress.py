"""What is said of an event while a run goes on."""

import pytest

from pike.core.events import Event, Judged, Proposed, Stopped
from pike.core.step import Candidate
from pike.core.verdict.evaluation import Effort, Evaluation, Status, Timing
from pike.engine.state.progress import line_of


def judged(contention: float, effort: Effort = Effort.SEARCH, *labels: str) -> Judged:
    timing = Timing(4.0, 2.0, 2.0, (1.9, 2.1), 6, 60, 0.1, contention=contention)
    return Judged("c3", Evaluation(Status.VALID, timing=timing, labels=labels), effort)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (judged(0.0), "c3: 2.00x, 2.00 ms"),
        (judged(0.1, Effort.FINAL), "c3: measured again: 2.00x, 2.00 ms"),
        (judged(0.3), "c3: 2.00x, 2.00 ms, while other programs held the CPU"),
        (judged(0.0, Effort.SEARCH, "kernels-of-others"), "c3: 2.00x, 2.00 ms, while other programs held the GPU"),
        (Judged("c3", Evaluation(Status.WRONG_OUTPUT, "off by 3\nat 7")), "c3: wrong-output: off by 3"),
        (
            Proposed(0, Candidate("c3", "x", "original", note="the last of 2 files in the answer: y")),
            "c3: the last of 2 files in the answer",
        ),
        (Proposed(0, Candidate("c3", "x", "original", note="y")), ""),
        (Stopped("hours"), "asking stopped: hours"),
    ],
)
def test_an_event_in_a_few_words(event: Event, words: str) -> None:
    assert line_of(event) == words
