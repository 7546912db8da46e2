"""The stopwatch with a runner whose clocks are scripted: what it claims and what it refuses."""

import math
import os
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from pike.core.evaluation import Evaluation, Status
from pike.evaluate.blocks import SessionPlan, Sides
from pike.evaluate.child.wire import Command
from pike.evaluate.contention import Contention, ContentionMeter
from pike.evaluate.devicestate import CLOCK_CHANGED, Reading, Reason, ScriptedReader
from pike.evaluate.reference import Inputs
from pike.evaluate.refusal import Refused
from pike.evaluate.runner import Call
from pike.evaluate.timing import CLOCKS_UNKNOWN, ONLY_IN_BATCHES, Stopwatch, TimingPlan, labels_of

LATENCY = SessionPlan(min_blocks=6, min_calls=20, target_width=0.5, max_seconds=2.0, patience_seconds=2.0)
PLAN = TimingPlan(LATENCY, None, verified_calls=3)
HAND_OVER_NS, NOISE_NS = 100_000, 20_000


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Whatever else runs on this machine, these runners do not feel it."""
    monkeypatch.setattr("pike.evaluate.blocks.ContentionMeter", lambda *pids: ContentionMeter(*pids, Path("/none")))


class ScriptedRunner:
    """A child that is called in no time and says it took `model_ns`, or `claims_ns`."""

    device = torch.device("cuda")  # its blocks are never dropped for what else runs on this machine
    child = SimpleNamespace(speaker=os.getpid, pids=set, freeze=lambda: None, thaw=lambda: None)

    def __init__(self, model_ns: int, claims_ns: int | None = None, lies: float = math.inf) -> None:
        """It claims `claims_ns` for so many calls and the truth afterwards."""
        self._model_ns, self._lies = model_ns, lies
        self._claims_ns = model_ns if claims_ns is None else claims_ns
        self._chance = random.Random(3)

    def stage(self, *inputs: Inputs) -> torch.Tensor:
        return torch.zeros(len(inputs))

    def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> Call:
        wall_ns = HAND_OVER_NS + int(self._chance.gauss(0.0, NOISE_NS))
        if command is Command.NULL:
            return Call(wall_ns, 1_000)
        self.released = packed.numel()
        self._lies -= 1
        claims_ns = self._claims_ns if self._lies >= 0 else self._model_ns
        return Call(wall_ns + self.released * self._model_ns, 1_000 + self.released * claims_ns)

    def snapshots(self) -> list[torch.Tensor]:
        return [torch.zeros(1)] * self.released


def measure(
    candidate: ScriptedRunner,
    plan: TimingPlan = PLAN,
    reader: ScriptedReader | None = None,
    reference: ScriptedRunner | None = None,
):
    sides = Sides(reference or ScriptedRunner(2_000_000), candidate, lambda seed: Inputs((), {}), reader)
    return Stopwatch(sides, plan).measure()


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


def test_where_waking_up_takes_the_judge_long_on_both_sides_nobody_lies():
    """Half a millisecond of each call is not in the child's own time, also for the reference's child, which is ours."""
    slow_to_wake = ScriptedRunner(2_500_000, claims_ns=2_000_000)
    assert measure(ScriptedRunner(1_500_000, claims_ns=1_000_000), reference=slow_to_wake).candidate_ms > 1.4
    with pytest.raises(Refused, match=r"by 1\.[45]"):
        measure(ScriptedRunner(1_500_000, claims_ns=0), reference=slow_to_wake)


def test_clocks_that_differed_for_a_moment_are_looked_at_once_more(monkeypatch):
    monkeypatch.setattr("pike.evaluate.blocks._WARM_SECONDS", 0.0)  # so that the lies last into the timed calls
    found = measure(ScriptedRunner(1_500_000, claims_ns=0, lies=60))
    assert found.candidate_ms == pytest.approx(1.5, rel=0.1)


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


class ScriptedMeter:
    """Says the same of every pair of blocks, but for the first so many."""

    def __init__(self, says: Contention, first: int = 0) -> None:
        self._says, self._readings = says, 2 * first  # a pair is read at its beginning and at its end

    def __call__(self, ours: set[int], timed: set[int]) -> "ScriptedMeter":
        assert os.getpid() in timed <= ours
        return self

    def read(self) -> Contention:
        self._readings -= 1
        return Contention(0.0, 0.0) if self._readings >= 0 else self._says


def test_on_a_busy_machine_clocks_that_differ_are_no_lie(monkeypatch):
    monkeypatch.setattr("pike.evaluate.blocks.ContentionMeter", ScriptedMeter(Contention(0.5, 0.0)))
    assert measure(ScriptedRunner(1_500_000, claims_ns=0)).speedup == pytest.approx(2.0 / 1.5, rel=0.1)


@pytest.mark.parametrize(
    ("says", "first", "dropped", "contention"),
    [
        (Contention(0.9, 0.05), 0, False, 0.05),  # threads of one model wait for each other
        (Contention(0.05, 1.0), 0, False, 0.05),  # others have a CPU that nobody needs
        (Contention(0.9, 0.6), 4, True, 0.0),
        (Contention(0.9, 0.6), 2, False, 0.6),  # too few are clean: all count, and it shows
    ],
)
def test_a_block_does_not_count_while_others_keep_somebody_waiting(monkeypatch, says, first, dropped, contention):
    monkeypatch.setattr("pike.evaluate.blocks.ContentionMeter", ScriptedMeter(says, first))
    monkeypatch.setattr(ScriptedRunner, "device", torch.device("cpu"))
    short = replace(LATENCY, max_seconds=0.3, patience_seconds=0.6)
    found = measure(ScriptedRunner(500_000), replace(PLAN, latency=short))
    assert bool(found.dropped_blocks) == dropped
    assert found.contention == contention
    assert not dropped or found.blocks == first


COOL = Reading(1980.0, 2619.0, 41.0, 310.0)
HOT = replace(COOL, celsius=88.0, reasons=(Reason.POWER_CAP, Reason.SOFTWARE_THERMAL))
SLOW = replace(COOL, sm_mhz=1755.0)


@pytest.mark.parametrize(
    ("bad", "why"), [(HOT, Reason.SOFTWARE_THERMAL.value), (SLOW, CLOCK_CHANGED)], ids=["protected", "another clock"]
)
def test_a_block_in_which_the_gpu_did_not_keep_its_clocks_does_not_count(bad, why):
    """Readings come in the order of the blocks: the third is of the second pair."""
    found = measure(ScriptedRunner(500_000), reader=ScriptedReader([COOL, COOL, bad, COOL]))
    assert (found.blocks, found.dropped_blocks) == (6, 1)
    assert found.state.spoiled == ((why, 1),)
    assert found.state.reference_sm_mhz == found.state.candidate_sm_mhz == 1980.0
    assert found.state.most_celsius == bad.celsius
    flat = Evaluation(Status.VALID, timing=found).flat()
    assert (flat["reference_sm_mhz"], flat["spoiled_blocks"]) == (1980.0, {why: 1})
    assert flat["throttle_reasons"] == [reason.value for reason in bad.reasons]


def test_a_load_that_always_runs_at_a_lower_clock_is_not_dropped():
    """At the power limit a heavy program runs slower than a light one, and that is its speed."""
    light, heavy = COOL, replace(SLOW, reasons=(Reason.POWER_CAP,))
    found = measure(ScriptedRunner(500_000), reader=ScriptedReader([light, heavy, heavy, light] * 20))
    assert found.dropped_blocks == 0
    assert (found.state.reference_sm_mhz, found.state.candidate_sm_mhz) == (1980.0, 1755.0)
    assert found.state.reasons == ("power cap",)
    assert found.state.spoiled == ()


def test_where_every_block_is_spoiled_all_count_and_the_verdict_says_so():
    plan = replace(PLAN, latency=replace(LATENCY, max_seconds=0.2, patience_seconds=0.4))
    found = measure(ScriptedRunner(500_000), plan, ScriptedReader([HOT]))
    assert found.dropped_blocks == 0
    assert found.blocks >= 3
    assert found.state.spoiled == (("software thermal slowdown", found.blocks),)


def test_a_gpu_that_tells_no_clocks_is_timed_all_the_same():
    found = measure(ScriptedRunner(500_000), reader=ScriptedReader([Reading()]))
    assert found.dropped_blocks == 0
    assert labels_of(found, on_gpu=True) == [CLOCKS_UNKNOWN]
    assert labels_of(measure(ScriptedRunner(500_000)), on_gpu=True) == [CLOCKS_UNKNOWN]
    assert labels_of(measure(ScriptedRunner(500_000), reader=ScriptedReader([COOL])), on_gpu=True) == []


class MergingRunner(ScriptedRunner):
    """Takes for several inputs as long as for one."""

    def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> Call:
        once = super().call(packed[:1], command)
        self.released = packed.numel()
        return once


@pytest.mark.parametrize(("kind", "labels"), [(ScriptedRunner, []), (MergingRunner, [ONLY_IN_BATCHES])])
def test_a_gain_that_needs_several_inputs_at_once_is_noticed(kind, labels):
    found = measure(kind(1_900_000), replace(PLAN, throughput=replace(LATENCY, inputs=4)))
    assert labels_of(found, on_gpu=False) == labels
    assert found.speedup < 1.5


class Replaying(ScriptedRunner):
    """Answers most calls from memory, at once: such snapshots hold ones."""

    def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> Call:
        self._replays = self._chance.random() < 0.6
        self._model_ns = 1_000 if self._replays else 2_000_000
        self._claims_ns = self._model_ns
        return super().call(packed, command)

    def snapshots(self) -> list[torch.Tensor]:
        return [torch.full((1,), float(self._replays))]


def test_the_fastest_call_of_a_block_is_among_those_that_are_verified():
    short = replace(PLAN, latency=replace(LATENCY, max_seconds=0.4, patience_seconds=0.4), verified_calls=1)
    for _ in range(10):
        candidate = Replaying(2_000_000)
        sides = Sides(ScriptedRunner(2_000_000), candidate, lambda seed: Inputs((), {}))
        watch = Stopwatch(sides, short)
        watch.measure()
        assert len(watch.kept) <= 2
        assert any(kept.snapshot.item() for kept in watch.kept)
