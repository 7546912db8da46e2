"""The locked hand-over, played on the CPU: no input before the clock starts, no output after it stopped."""

from collections.abc import Callable, Iterator

import pytest
import torch
from tests.evaluate.conftest import OPTIONS, SOURCE

from pike.core.evaluation import Evaluation, EvaluationRequest, Status
from pike.core.task import Task, TaskKind
from pike.evaluate import runner
from pike.evaluate.child.board import Board
from pike.evaluate.child.layout import layout_of, output_layout_of, views
from pike.evaluate.child.locks import HostLocks
from pike.evaluate.child.wire import Command, Reply, Up
from pike.evaluate.handover import Locked, Shape
from pike.evaluate.judge import Judge
from pike.evaluate.refusal import Refused

HONEST = SOURCE.replace("class Model(", "class ModelNew(")
PATCH = """
import gc
from pike.evaluate.child import delivery
honest = delivery.CommittingOnHost.deliver
def deliver(self, leaves, place, last):
    {body}
delivery.CommittingOnHost.deliver = deliver
"""
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def locked() -> Iterator[Callable[..., Evaluation]]:
    """`locked(source)` judges a candidate of the small task by the locked hand-over."""
    judge, task = Judge(), Task("small", "two linear layers", TaskKind.SOURCE, SOURCE, "small.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "make", Locked)
        yield lambda source: judge.evaluate(EvaluationRequest(task, source, OPTIONS))
        judge.forget()


def test_a_copy_of_the_reference_is_valid(locked: Callable[..., Evaluation]) -> None:
    found = locked(HONEST)
    assert found.status is Status.VALID, found.reason + found.log


@pytest.mark.parametrize(
    ("source", "status"),
    [
        (HONEST.replace("* self.gain", "* 2"), Status.WRONG_OUTPUT),
        (HONEST.replace("def forward(self, x):", "def forward(self, x):\n        x.zero_()"), Status.BAD_CONTRACT),
        (HONEST.replace("return self.second", "raise KeyError(1)"), Status.RUNTIME_ERROR),
        (HONEST.replace("return self.second", "import os; os._exit(0)"), Status.RUNTIME_ERROR),
        (
            HONEST
            + PATCH.format(body="self._board.commit(self._ticket, bytes(16)); self._places[place][0].copy_(leaves[0])"),
            Status.UNTRUSTED_TIMING,
        ),
        (
            HONEST + PATCH.format(body="honest(self, leaves, place, last); self._places[place][0].add_(1e-9)"),
            Status.UNTRUSTED_TIMING,
        ),
        (HONEST + PATCH.format(body="pass"), Status.SANDBOX_VIOLATION),
    ],
    ids=["wrong", "input-modified", "raises", "exits", "commits-early", "writes-late", "never-commits"],
)
def test_what_an_unreliable_child_is_called(locked: Callable[..., Evaluation], source: str, status: Status) -> None:
    assert locked(source).status is status


class _Actor:
    """Plays the child; looks into its memory at the moments that matter."""

    def __init__(self, handover: Locked, packed: torch.Tensor, answer: torch.Tensor) -> None:
        self.handover, self.packed, self.answer = handover, packed, answer
        self.source, self.noise = handover._source.tensor, handover._noise.tensor
        self.board = Board(handover._page.tensor)
        self.begun = False

    def send(self, command: Command, body: object) -> None:
        assert not torch.equal(self.noise[: self.packed.numel()], self.packed)
        assert not torch.equal(self.source[: self.packed.numel()], self.packed)

    def receive(self) -> Up:
        return Up(Reply.OK, 1)

    def until(self, ready: Callable[[], bool]) -> int:
        if not self.begun:
            self.begun = True
            self.board.say_ready(1)
            return 0
        locks = HostLocks(self.board)
        locks.set_key(self.board.wait_for_key(1))
        locks.reveal(self.noise, self.source)
        assert torch.equal(self.source[: self.packed.numel()], self.packed)
        target = views(self.handover._target.tensor, output_layout_of(self.answer))
        locks.commit([self.answer], locks.route(target), 1, first=True)
        assert ready()
        return 5


def test_an_input_is_not_in_the_childs_memory_before_the_clock_starts() -> None:
    example, answer = torch.arange(64.0), torch.arange(32.0)
    handover = Locked(Shape(layout_of((example,)), output_layout_of(answer), may_alias=False, places=1), CPU)
    packed = example.view(torch.uint8).clone()
    handover.call(_Actor(handover, packed, answer), packed, Command.RUN)
    assert torch.equal(handover.taken()[:128].view(torch.float32), answer)
    handover.close()


def test_a_commitment_to_other_bytes_is_refused() -> None:
    example, answer = torch.arange(64.0), torch.arange(32.0)
    handover = Locked(Shape(layout_of((example,)), output_layout_of(answer), may_alias=False, places=1), CPU)
    packed = example.view(torch.uint8).clone()
    actor = _Actor(handover, packed, answer)
    actor.receive = lambda: (handover._target.tensor[0].add_(1), Up(Reply.OK, 1))[1]  # type: ignore[method-assign]
    with pytest.raises(Refused, match="not the ones committed"):
        handover.call(actor, packed, Command.RUN)
    handover.close()
