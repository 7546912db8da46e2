"""What a candidate's outputs must survive, with neither children nor a device: calls take the time that a test says."""

from dataclasses import dataclass, field

import pytest
import torch

from pike.core.evaluation import Effort, EvaluateOptions
from pike.evaluate.checks import Checks
from pike.evaluate.child.wire import Command
from pike.evaluate.correctness import Expected
from pike.evaluate.reference import Inputs
from pike.evaluate.regimes import REGIMES
from pike.evaluate.runner import Call

RIGHT = torch.randn(64)


@dataclass
class Bench:
    """A reference of constant speed; its judge finds no memory as often as it is told."""

    call_seconds: float = 0.1
    starved: int = 0
    places: int = 1
    asked: list[str] = field(default_factory=list)

    def draw(self, seed: int) -> Inputs:
        return Inputs((), {})

    def expected(self, inputs: Inputs, sparing: bool) -> Expected:
        self.asked.append("sparing" if sparing else "expected")
        if self.starved:
            self.starved -= 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4.00 GiB.")
        return Expected([RIGHT.double()], [RIGHT], [], True)

    def expected_or_none(self, inputs: Inputs, slack: float, sparing: bool) -> Expected:
        return self.expected(inputs, sparing)

    def draw_held_out(self, seed: int) -> tuple[Inputs, ...]:
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

    def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> Call:
        self.now += self.seconds[min(self.calls, len(self.seconds) - 1)]
        self.calls += 1
        return Call(0, 0)

    def snapshots(self) -> list[torch.Tensor]:
        return [RIGHT]

    def outputs(self, snapshot: torch.Tensor = RIGHT) -> list[torch.Tensor]:
        return [snapshot.clone()]

    def order(self, command: Command) -> None:
        self.orders.append(command)


def checked(bench: Bench, runner: Runner) -> Checks:
    checks = Checks(bench, runner, EvaluateOptions(correctness_seeds=3), lambda: runner.now)
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
    checks = checked(Bench(), runner)
    assert runner.calls == calls
    assert checks.first_call_seconds == seconds[0]


def test_a_large_model_is_not_taken_for_a_compiler():
    runner = Runner([9.0])
    checked(Bench(call_seconds=1.0), runner)
    assert runner.calls == 3


def test_a_judge_without_memory_has_the_children_hand_back_what_they_do_not_use():
    bench, runner = Bench(starved=1), Runner([0.1])
    assert checked(bench, runner).error is not None
    assert bench.asked == ["expected", "release", "sparing", "expected", "expected"]
    assert runner.orders == [Command.RELEASE]


def test_so_they_do_for_inputs_of_other_kinds_and_none_is_left_out():
    bench, runner = Bench(), Runner([0.1])
    checks = checked(bench, runner)
    bench.starved = 1
    checks.after_timing(Effort.FINAL)
    assert runner.orders == [Command.RELEASE]
    assert runner.calls == 3 + len(REGIMES)
    assert not checks.labels


def test_a_judge_that_finds_no_memory_even_then_says_so():
    with pytest.raises(torch.OutOfMemoryError):
        checked(Bench(starved=2), Runner([0.1]))
