"""When a candidate is tried a second time."""

import pytest

from pike.core.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, Status, Timing
from pike.core.task import Task
from pike.evaluate.judge import Judge

STARVED = Evaluation(Status.RESOURCE_LIMIT, "OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB.")
LIBRARY = Evaluation(Status.RESOURCE_LIMIT, "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling x")
OURS = Evaluation(Status.INFRA_ERROR, "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.")
VALID = Evaluation(Status.VALID, timing=Timing(2.0, 1.0, 2.0, (1.9, 2.1), 6, 60, 0.01))
TIMEOUT = Evaluation(Status.TIMEOUT, "the candidate used more than its 120 seconds")
WRONG = Evaluation(Status.WRONG_OUTPUT, "wrong")


@pytest.mark.parametrize(
    ("verdicts", "owed"),
    [
        ([STARVED, VALID], Status.VALID),
        ([STARVED, STARVED], Status.RESOURCE_LIMIT),
        ([STARVED, TIMEOUT], Status.RESOURCE_LIMIT),
        ([LIBRARY, VALID], Status.VALID),
        ([OURS, VALID], Status.VALID),
        ([OURS, OURS], Status.INFRA_ERROR),
        ([WRONG], Status.WRONG_OUTPUT),
        ([Evaluation(Status.RESOURCE_LIMIT, "the candidate used 9.00 GiB of memory, more than 1.00 GiB")],
         Status.RESOURCE_LIMIT),
    ],
    ids=["memory-was-taken", "needs-too-much", "does-not-end", "library", "the-judge", "the-judge-again", "wrong", "host-memory"],
)  # fmt: skip
def test_who_finds_no_device_memory_is_tried_again_with_the_device_to_itself(
    monkeypatch: pytest.MonkeyPatch, task: Task, verdicts: list[Evaluation], owed: Status
) -> None:
    coming, seen = list(verdicts), []

    def tried(self: Judge, trial: object, request: EvaluationRequest, roofline: object) -> Evaluation:
        seen.append(request.options.timeout_seconds)
        return coming.pop(0)

    monkeypatch.setattr(Judge, "_tried", tried)
    found = Judge().evaluate(EvaluationRequest(task, "", EvaluateOptions(device="cpu", sandbox="process")))
    assert found.status is owed
    assert not coming
    assert seen == [900.0, 120.0][: len(verdicts)]
