"""The stopwatch with a runner whose clocks are scripted: what it claims and what it refuses."""

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from pike.core.evaluation import Status
from pike.evaluate.blocks import SessionPlan
from pike.evaluate.child.wire import Command
from pike.evaluate.contention import ContentionMeter
from pike.evaluate.reference import Inputs
from pike.evaluate.refusal import Refused
from pike.evaluate.runner import Call
from pike.evaluate.timing import Stopwatch, TimingPlan

LATENCY = SessionPlan(min_blocks=6, min_calls=20, target_width=0.5, max_seconds=2.0, patience_seconds=2.0)
PLAN = TimingPlan(LATENCY, None, verified_calls=3)
HAND_OVER_NS, NOISE_NS = 100_000, 20_000


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Whatever else runs on this machine, these runners do not feel it."""
    monkeypatch.setattr("pike.evaluate.blocks.ContentionMeter", lambda: ContentionMeter(Path("/no/such/file")))


class ScriptedRunner:
    """A child that is called in no time and says it took `model_ns`, or `claims_ns`."""

    device = torch.device("cuda")  # its blocks are never dropped for what else runs on this machine
    child = SimpleNamespace(freeze=lambda: None, thaw=lambda: None)

    def __init__(self, model_ns: int, claims_ns: int | None = None) -> None:
        self._model_ns = model_ns
        self._claims_ns = model_ns if claims_ns is None else claims_ns
        self._chance = random.Random(3)

    def stage(self, *inputs: Inputs) -> torch.Tensor:
        return torch.zeros(len(inputs))

    def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> Call:
        wall_ns = HAND_OVER_NS + int(self._chance.gauss(0.0, NOISE_NS))
        if command is Command.NULL:
            return Call(wall_ns, 1_000)
        self.released = packed.numel()
        return Call(wall_ns + self.released * self._model_ns, 1_000 + self.released * self._claims_ns)

    def snapshots(self) -> list[torch.Tensor]:
        return [torch.zeros(1)] * self.released


def measure(candidate: ScriptedRunner, plan: TimingPlan = PLAN):
    return Stopwatch(ScriptedRunner(2_000_000), candidate, lambda seed: Inputs((), {}), plan).measure()


def test_an_honest_candidate_shorter_than_the_hand_over_is_timed():
    found = measure(ScriptedRunner(25_000))
    assert 0.025 <= found.candidate_ms < 0.025 + 2 * NOISE_NS / 1e6
    assert 2_000 / (25 + 40) < found.speedup < 90


def test_a_short_candidate_that_claims_no_time_gains_at_most_the_noise():
    found = measure(ScriptedRunner(2_000, claims_ns=0))
    assert found.candidate_ms * 1e6 > NOISE_NS / 4
    assert found.speedup < 2_000_000 / (NOISE_NS / 4)


def test_a_long_candidate_that_claims_no_time_is_not_believed():
    with pytest.raises(Refused, match="clock") as refused:
        measure(ScriptedRunner(1_500_000, claims_ns=0))
    assert refused.value.status is Status.UNTRUSTED_TIMING


def test_a_candidate_that_claims_more_time_is_not_helped():
    assert measure(ScriptedRunner(500_000, claims_ns=600_000)).speedup < 4


def test_throughput_is_for_each_input():
    together = replace(LATENCY, inputs=4)
    found = measure(ScriptedRunner(500_000), replace(PLAN, throughput=together))
    assert found.throughput.inputs == 4
    assert found.throughput.candidate_ms == pytest.approx(0.5, rel=0.1)
    assert found.throughput.reference_ms == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize(("beat", "blocks"), [(3.0, 6), (5.0, 4)])
def test_timing_ends_early_only_for_what_is_certainly_slower(beat, blocks):
    """The candidate is four times as fast as the reference."""
    found = measure(ScriptedRunner(500_000), replace(PLAN, latency=replace(LATENCY, beat=beat)))
    assert found.blocks == blocks
    assert found.speedup_ci95[0] <= found.speedup <= found.speedup_ci95[1] < 5.0


def test_on_a_busy_machine_clocks_that_differ_are_no_lie(monkeypatch):
    monkeypatch.setattr("pike.evaluate.blocks.ContentionMeter", lambda: SimpleNamespace(share=lambda: 0.5))
    assert measure(ScriptedRunner(1_500_000, claims_ns=0)).speedup == pytest.approx(2.0 / 1.5, rel=0.1)
