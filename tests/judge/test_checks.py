"""What a candidate's outputs must survive, with neither children nor a device: calls take the time that a test says."""

from dataclasses import dataclass, field

import pytest
import torch

from pike.core.verdict.evaluation import Effort, EvaluateOptions
from pike.judge.calls.runner import CallTimes
from pike.judge.checks import Checks
from pike.judge.child.memory.layout import layout_of, output_layout_of
from pike.judge.child.orders import Shape
from pike.judge.child.wire import Command
from pike.judge.correctness.compare import Expected
from pike.judge.reference.input_distributions import DISTRIBUTIONS
from pike.judge.reference.reference import Inputs

RIGHT = torch.randn(64)
INPUTS = Inputs((torch.randn(4, 8), torch.arange(6)), {})
SHAPE = Shape(layout_of((INPUTS.args, INPUTS.kwargs)), output_layout_of(RIGHT), False, 1)


@dataclass
class FakePrepared:
    """A task whose reference has constant speed, and finds no memory the first `starved` times."""

    call_seconds: float = 0.1
    starved: int = 0
    shape: Shape = SHAPE
    answer: torch.Tensor = field(default_factory=RIGHT.double)
    asked: list[str] = field(default_factory=list)

    def draw(self, seed: int) -> Inputs:
        return INPUTS

    def expected(self, inputs: Inputs) -> Expected:
        self.asked.append("expected")
        if self.starved:
            self.starved -= 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 GiB.")
        return Expected([self.answer], [RIGHT], [], True)

    def expected_or_none(self, inputs: Inputs, slack: float) -> Expected:
        return self.expected(inputs)

    def draw_held_out(self, seed: int) -> tuple[Inputs, ...]:
        self.asked.append("held-out")
        return ()

    def release_memory(self) -> None:
        self.asked.append("release")


@dataclass
class Runner:
    """A candidate whose calls take so long, the last one for ever after."""

    seconds: list[float]
    now: float = 0.0
    calls: int = 0
    orders: list[Command] = field(default_factory=list)

    def stage(self, *inputs: Inputs) -> torch.Tensor:
        return torch.empty(0)

    def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> CallTimes:
        self.now += self.seconds[min(self.calls, len(self.seconds) - 1)]
        self.calls += 1
        return CallTimes(0, 0)

    def snapshots(self) -> list[torch.Tensor]:
        return [RIGHT]

    def outputs(self, snapshot: torch.Tensor = RIGHT) -> list[torch.Tensor]:
        return [snapshot.clone()]

    def order(self, command: Command) -> None:
        self.orders.append(command)


def checked(prepared: FakePrepared, runner: Runner) -> Checks:
    checks = Checks(prepared, runner, EvaluateOptions(correctness_seeds=3), lambda: runner.now)
    checks.before_timing(Effort.SEARCH)
    return checks


@pytest.mark.parametrize(
    ("seconds", "calls"),
    [
        ([50.0, 0.1], 3),  # compiled once
        ([50.0, 20.0, 20.0, 20.0, 20.0, 0.1], 6),  # for each of the first inputs
        ([50.0, 20.0], 9),  # for every one: it is timed as it is
        ([0.9], 3),  # slow, and no compiler is that fast
    ],
)
def test_a_candidate_is_called_until_its_calls_compile_no_more(seconds, calls):
    runner = Runner(seconds)
    checks = checked(FakePrepared(), runner)
    assert runner.calls == calls
    assert checks.first_call_seconds == seconds[0]


def test_a_large_model_is_not_taken_for_a_compiler():
    runner = Runner([9.0])
    checked(FakePrepared(call_seconds=1.0), runner)
    assert runner.calls == 3


def test_a_judge_that_runs_out_of_memory_has_both_children_release_their_caches():
    prepared, runner = FakePrepared(starved=1), Runner([0.1])
    assert checked(prepared, runner).error is not None
    assert prepared.asked == ["expected", "release", "expected", "expected", "expected"]
    assert runner.orders == [Command.RELEASE]


def test_children_release_their_caches_for_other_distributions_too_and_none_is_left_out():
    prepared, runner = FakePrepared(), Runner([0.1])
    checks = checked(prepared, runner)
    prepared.starved = 1
    checks.after_timing(Effort.FINAL)
    assert runner.orders == [Command.RELEASE]
    assert runner.calls == 3 + len(DISTRIBUTIONS)
    assert not checks.labels


@pytest.mark.parametrize(
    ("effort", "calls", "asks"),
    [(Effort.SEARCH, 3, 0), (Effort.BESIDE, 5 + len(DISTRIBUTIONS), 0), (Effort.FINAL, 5 + len(DISTRIBUTIONS), 1)],
)
def test_a_baseline_is_tried_as_a_finalist_is_but_for_held_out_shapes(effort, calls, asks):
    prepared, runner = FakePrepared(), Runner([0.1])
    checks = Checks(prepared, runner, EvaluateOptions(correctness_seeds=3), lambda: runner.now)
    checks.before_timing(effort)
    assert (runner.calls, prepared.asked.count("held-out")) == (calls, asks)


def test_an_answer_in_float64_may_be_longer_by_a_rounding_error():
    checks = checked(FakePrepared(answer=torch.zeros(65, dtype=torch.float64)), Runner([0.1]))
    checks.after_timing(Effort.FINAL)
    assert not checks.labels, "every distribution was tried"


def test_a_judge_that_runs_out_of_memory_twice_gives_up():
    with pytest.raises(torch.OutOfMemoryError):
        checked(FakePrepared(starved=2), Runner([0.1]))
