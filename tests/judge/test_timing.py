"""The stopwatch with a runner whose clocks are scripted: what it claims and what it refuses."""

import math
import os
import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from pike.core.verdict.evaluation import ON_SOME_VALUES, Evaluation, Status, Timing
from pike.judge.calls.runner import CallTimes
from pike.judge.child.wire import Command
from pike.judge.reference.input_distributions import InputDistribution
from pike.judge.reference.reference import Inputs
from pike.judge.refusal import Refused
from pike.judge.timing.contention import Contention, ContentionMeter
from pike.judge.timing.device_state import CLOCK_CHANGED, Reading, Reason
from pike.judge.timing.session import SessionPlan, Sides
from pike.judge.timing.timing import (
    CLOCKS_UNKNOWN,
    ONLY_IN_BATCHES,
    SLOW_FIRST_CALL,
    Stopwatch,
    TimingPlan,
    labels_of,
)

LATENCY = SessionPlan(min_blocks=6, min_calls=20, target_width=0.5, max_seconds=2.0, patience_seconds=2.0)
PLAN = TimingPlan(LATENCY, None, verified_calls=3)
TRANSFER_NS, NOISE_NS = 100_000, 20_000


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Whatever else runs on this machine, these runners do not feel it."""
    monkeypatch.setattr(
        "pike.judge.timing.session.ContentionMeter", lambda *pids: ContentionMeter(*pids, Path("/none"))
    )


class ScriptedRunner:
    """A child that is called in no time and says it took `model_ns`, or `claims_ns`."""

    device = torch.device("cuda")  # its blocks are never dropped for what else runs on this machine
    child = SimpleNamespace(speaker=os.getpid, pids=set, paused=nullcontext)

    def __init__(self, model_ns: int, claims_ns: int | None = None, lies: float = math.inf) -> None:
        """It claims `claims_ns` for so many calls and the truth afterwards."""
        self._model_ns, self._lies = model_ns, lies
        self._claims_ns = model_ns if claims_ns is None else claims_ns
        self._chance = random.Random(3)

    def stage(self, *inputs: Inputs) -> torch.Tensor:
        return torch.zeros(len(inputs))

    def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> CallTimes:
        wall_ns = TRANSFER_NS + int(self._chance.gauss(0.0, NOISE_NS))
        if command is Command.NULL:
            return CallTimes(wall_ns, 1_000)
        self.released = packed.numel()
        self._lies -= 1
        claims_ns = self._claims_ns if self._lies >= 0 else self._model_ns
        return CallTimes(wall_ns + self.released * self._model_ns, 1_000 + self.released * claims_ns)

    def snapshots(self) -> list[torch.Tensor]:
        return [torch.zeros(1)] * self.released


def scripted(readings: list[Reading]) -> Callable[[], Reading]:
    """Gives the readings in order, and the last one again and again."""
    coming = list(readings)
    return lambda: coming.pop(0) if len(coming) > 1 else coming[0]


def measure(
    candidate: ScriptedRunner,
    plan: TimingPlan = PLAN,
    reader: Callable[[], Reading] | None = None,
    reference: ScriptedRunner | None = None,
):
    sides = Sides(reference or ScriptedRunner(2_000_000), [candidate], lambda seed: Inputs((), {}), reader)
    return Stopwatch(sides, plan).measure()[0]


def test_an_honest_candidate_shorter_than_the_transfer_is_timed():
    found = measure(ScriptedRunner(25_000))
    assert 0.025 <= found.candidate_ms < 0.025 + 2 * NOISE_NS / 1e6
    assert 2_000 / (25 + 40) < found.speedup < 90


def test_a_short_candidate_that_claims_no_time_gains_at_most_the_noise():
    found = measure(ScriptedRunner(2_000, claims_ns=0))
    assert found.candidate_ms * 1e6 > NOISE_NS / 4
    assert found.speedup < 2_000_000 / (NOISE_NS / 4)


@pytest.mark.parametrize(("patience", "least"), [(2.0, 0.4), (0.2, 0.2)], ids=["four times", "within the patience"])
def test_short_calls_get_more_time_while_their_interval_is_wide(patience, least):
    wide = replace(LATENCY, target_width=-1.0, max_seconds=0.1, patience_seconds=patience)
    started = time.monotonic()
    measure(ScriptedRunner(50_000), replace(PLAN, latency=wide), reference=ScriptedRunner(50_000))
    assert time.monotonic() - started >= least


def test_a_long_candidate_that_claims_no_time_is_not_believed():
    with pytest.raises(Refused, match="clock") as refused:
        measure(ScriptedRunner(1_500_000, claims_ns=0))
    assert refused.value.status is Status.UNTRUSTED_TIMING


def test_a_judge_that_wakes_up_late_for_both_sides_finds_no_lie():
    """Half a millisecond of each call is not in the child's own time, also for the reference's child, which is ours."""
    slow_to_wake = ScriptedRunner(2_500_000, claims_ns=2_000_000)
    assert measure(ScriptedRunner(1_500_000, claims_ns=1_000_000), reference=slow_to_wake).candidate_ms > 1.4
    with pytest.raises(Refused, match=r"by 1\.[45]"):
        measure(ScriptedRunner(1_500_000, claims_ns=0), reference=slow_to_wake)


def test_clocks_that_differed_for_a_moment_are_looked_at_once_more():
    plan = replace(PLAN, latency=replace(LATENCY, warm_seconds=0.0))  # so that the lies last into the timed calls
    found = measure(ScriptedRunner(1_500_000, claims_ns=0, lies=60), plan)
    assert found.candidate_ms == pytest.approx(1.5, rel=0.1)


def test_a_candidate_that_claims_more_time_is_not_helped():
    assert measure(ScriptedRunner(500_000, claims_ns=600_000)).speedup < 4


def test_throughput_is_for_each_input():
    together = replace(LATENCY, inputs=4)
    found = measure(ScriptedRunner(500_000), replace(PLAN, throughput=together))
    assert found.throughput.inputs == 4
    assert found.throughput.candidate_ms == pytest.approx(0.5, rel=0.1)
    assert found.throughput.reference_ms == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize(("least_speedup", "blocks"), [(3.0, 6), (5.0, 4)])
def test_timing_ends_early_only_for_what_is_certainly_slower(least_speedup, blocks):
    """The candidate is four times as fast as the reference."""
    found = measure(ScriptedRunner(500_000), replace(PLAN, latency=replace(LATENCY, least_speedup=least_speedup)))
    assert found.blocks == blocks
    assert found.speedup_ci95[0] <= found.speedup <= found.speedup_ci95[1] < 5.0


class ScriptedMeter:
    """Says the same of every pair of blocks, but for the first so many."""

    def __init__(self, says: Contention, first: int = 0) -> None:
        self._says, self._readings = says, 4 * first  # each block of a pair is read at its beginning and at its end

    def __call__(self, ours: set[int], timed: set[int]) -> "ScriptedMeter":
        assert os.getpid() in timed <= ours
        return self

    def read(self) -> Contention:
        self._readings -= 1
        return Contention(0.0, 0.0) if self._readings >= 0 else self._says


def test_on_a_busy_machine_clocks_that_differ_are_no_lie(monkeypatch):
    monkeypatch.setattr("pike.judge.timing.session.ContentionMeter", ScriptedMeter(Contention(0.5, 0.0)))
    assert measure(ScriptedRunner(1_500_000, claims_ns=0)).speedup == pytest.approx(2.0 / 1.5, rel=0.1)


@pytest.mark.parametrize(("waited", "certain"), [(0.05, 4.0), (0.2, 3.2), (0.45, 2.2), (0.8, 1.0), (0.99, 1.0)])
def test_a_time_that_waited_for_others_claims_only_what_is_certain(monkeypatch, waited, certain):
    """The candidate is four times as fast as the reference, as far as the clock of a busy machine can tell."""
    monkeypatch.setattr("pike.judge.timing.session.ContentionMeter", ScriptedMeter(Contention(waited, waited)))
    found = measure(ScriptedRunner(500_000))
    assert found.speedup == pytest.approx(certain, rel=0.1)
    assert found.speedup_ci95[0] <= found.speedup <= found.speedup_ci95[1]
    assert found.faster == (certain > 1.0)
    likeliest = measure(ScriptedRunner(500_000), replace(PLAN, latency=replace(LATENCY, claims_certain=False)))
    assert likeliest.speedup == pytest.approx(4.0, rel=0.1), "a search ranks by this"
    assert likeliest.speedup_ci95 == pytest.approx(found.speedup_ci95, rel=0.2)


@pytest.mark.parametrize(
    ("says", "first", "dropped", "contention"),
    [
        (Contention(0.9, 0.05), 0, False, 0.05),  # threads of one model wait for each other
        (Contention(0.05, 1.0), 0, False, 0.05),  # others run on a CPU that is not needed
        (Contention(0.9, 0.6), 4, True, 0.0),
        (Contention(0.9, 0.6), 2, False, 0.6),  # too few are clean: all count, and it shows
    ],
)
def test_a_block_does_not_count_while_other_programs_hold_the_cpu(monkeypatch, says, first, dropped, contention):
    monkeypatch.setattr("pike.judge.timing.session.ContentionMeter", ScriptedMeter(says, first))
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
    found = measure(ScriptedRunner(500_000), reader=scripted([COOL, COOL, bad, COOL]))
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
    found = measure(ScriptedRunner(500_000), reader=scripted([light, heavy, heavy, light] * 20))
    assert found.dropped_blocks == 0
    assert (found.state.reference_sm_mhz, found.state.candidate_sm_mhz) == (1980.0, 1755.0)
    assert found.state.reasons == ("power cap",)
    assert found.state.spoiled == ()


def test_where_every_block_is_spoiled_all_count_and_the_verdict_says_so():
    plan = replace(PLAN, latency=replace(LATENCY, max_seconds=0.2, patience_seconds=0.4))
    found = measure(ScriptedRunner(500_000), plan, scripted([HOT]))
    assert found.dropped_blocks == 0
    assert found.blocks >= 3
    assert found.state.spoiled == (("software thermal slowdown", found.blocks),)


def test_a_gpu_that_tells_no_clocks_is_timed_all_the_same():
    found = measure(ScriptedRunner(500_000), reader=scripted([Reading()]))
    assert found.dropped_blocks == 0
    assert labels_of(found, on_gpu=True) == [CLOCKS_UNKNOWN]
    assert labels_of(measure(ScriptedRunner(500_000)), on_gpu=True) == [CLOCKS_UNKNOWN]
    assert labels_of(measure(ScriptedRunner(500_000), reader=scripted([COOL])), on_gpu=True) == []


class MergingRunner(ScriptedRunner):
    """Takes for several inputs as long as for one."""

    def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> CallTimes:
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

    def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> CallTimes:
        self._replays = self._chance.random() < 0.6
        self._model_ns = 1_000 if self._replays else 2_000_000
        self._claims_ns = self._model_ns
        return super().call(packed, command)

    def snapshots(self) -> list[torch.Tensor]:
        return [torch.full((1,), float(self._replays))]


class Sniffer(ScriptedRunner):
    """Takes its scripted time for the inputs that the task draws, and `other_ns` for all others."""

    def __init__(self, model_ns: int, other_ns: int) -> None:
        super().__init__(model_ns)
        self._usual_ns, self._other_ns = model_ns, other_ns

    def stage(self, *inputs: Inputs) -> torch.Tensor:
        self._model_ns = self._claims_ns = self._other_ns if inputs[0].args == ("large",) else self._usual_ns
        return super().stage(*inputs)


LARGE = InputDistribution("large values", lambda inputs, seed: Inputs(("large",), {}))
SAME = InputDistribution("small values", lambda inputs, seed: inputs)


@pytest.mark.parametrize(
    ("other_ns", "worst", "labels"), [(4_000_000, "large values", [ON_SOME_VALUES]), (1_000_000, "", [])]
)
def test_a_finalist_is_timed_under_each_distribution_and_the_least_gain_is_told(other_ns, worst, labels):
    sides = Sides(ScriptedRunner(2_000_000), [Sniffer(1_000_000, other_ns)], lambda seed: Inputs((), {}))
    short = replace(LATENCY, min_blocks=3, min_calls=6)
    watch = Stopwatch(sides, TimingPlan(LATENCY, None, 3, short), [SAME, LARGE])
    (timing,) = watch.measure()
    assert timing.speedup == pytest.approx(2.0, rel=0.1)
    assert timing.worst.speedup == pytest.approx(2_000_000 / other_ns, rel=0.1)
    assert worst in timing.worst.distribution
    assert labels_of(timing, on_gpu=False) == labels
    assert {kept.distribution for kept in watch.kept[0]} == {None, SAME, LARGE}


def test_while_searching_no_distribution_is_timed():
    sides = Sides(ScriptedRunner(2_000_000), [ScriptedRunner(1_000_000)], lambda seed: Inputs((), {}))
    assert Stopwatch(sides, PLAN, [SAME, LARGE]).measure()[0].worst is None


@pytest.mark.parametrize(
    ("first_call_ms", "pays", "labels"),
    [(3.0, 0, []), (503.0, 500, []), (2003.0, 2000, [SLOW_FIRST_CALL]), (None, 0, [])],
)
def test_a_first_call_that_few_calls_make_up_for_is_labelled(first_call_ms, pays, labels):
    cold = Timing(2.0, 1.0, 2.0, (1.9, 2.1), 12, 60, 0.0, first_call_ms=first_call_ms, reference_first_call_ms=3.0)
    assert cold.pays_after_calls == pays
    assert labels_of(cold, on_gpu=False) == labels


@pytest.mark.parametrize("reference_ms", [1.0, pytest.param(2.0, id="noise-between-medians")])
def test_a_slower_first_call_of_what_shows_no_gain_never_pays(reference_ms):
    cold = Timing(reference_ms, 1.0, 1.0, (0.9, 1.1), 12, 60, 0.0, first_call_ms=900.0, reference_first_call_ms=3.0)
    assert cold.pays_after_calls is None
    assert labels_of(cold, on_gpu=False) == [SLOW_FIRST_CALL]


def test_the_fastest_call_of_a_block_is_among_those_that_are_verified():
    short = replace(PLAN, latency=replace(LATENCY, max_seconds=0.4, patience_seconds=0.4), verified_calls=1)
    for _ in range(10):
        candidate = Replaying(2_000_000)
        sides = Sides(ScriptedRunner(2_000_000), [candidate], lambda seed: Inputs((), {}))
        watch = Stopwatch(sides, short)
        watch.measure()
        assert len(watch.kept[0]) <= 2
        assert any(kept.snapshot.item() for kept in watch.kept[0])


def test_candidates_and_the_reference_share_each_round_of_a_session():
    """What slows every side down in some rounds changes no ratio, and each keeps outputs of its own."""

    class Drifting(ScriptedRunner):
        def __init__(self, model_ns: int) -> None:
            super().__init__(model_ns)
            self._usual_ns = model_ns

        def call(self, packed: torch.Tensor, command: Command = Command.RUN) -> CallTimes:
            rounds.append(self)
            slow = 1.0 + len(rounds) / 400
            self._model_ns = self._claims_ns = int(self._usual_ns * slow)
            return super().call(packed, command)

    rounds = list[ScriptedRunner]()
    reference, double, triple = Drifting(3_000_000), Drifting(1_500_000), Drifting(1_000_000)
    watch = Stopwatch(Sides(reference, [double, triple], lambda seed: Inputs((), {})), PLAN)
    twice, thrice = watch.measure()
    assert twice.speedup == pytest.approx(2.0, rel=0.1)
    assert thrice.speedup == pytest.approx(3.0, rel=0.1)
    assert twice.reference_ms == thrice.reference_ms > 3.3, "one measurement of the reference, and it drifted"
    # The last and the fastest may be among those that chance kept.
    assert all(len(kept) >= PLAN.verified_calls - 1 for kept in watch.kept)
    assert {kept.seed for kept in watch.kept[0]}.isdisjoint(kept.seed for kept in watch.kept[1])
