"""The bandit over models: the contract of strategies around it, and that it finds what is worth its money."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from search_worlds import World, candidate_for, landscape, refused, valid
from strategy_contract import StrategyContract, steps_of

from pike import search
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import Outcome, Role, Step, Strategy
from pike.search.bandit import over_models
from pike.search.drive import drive, replay

ARMS = {Role.OPTIMISE: ("small", "large"), Role.FIX: ("small", "large"), Role.BRAINSTORM: ("large",)}


def wrapped(queries: int, arms: dict[Role, tuple[str, ...]] = ARMS, preset: str = "pike-b") -> Strategy:
    # Every sample starts at the original, so that what a model gains does not depend on what came before.
    chosen = (
        StrategyConfig("best-of-n", {"repair": "immediate"})
        if preset == "best-of-n-repaired"
        else StrategyConfig(preset)
    )
    return over_models(search.make(chosen, Budget(queries=queries), 7), arms, 7)


def asked(queries: int, world: World, role: Role, preset: str = "pike-b") -> Counter[str]:
    calls = drive(wrapped(queries, preset=preset), world, concurrency=10)
    return Counter(step.model for step in steps_of(calls) if step.role is role)


class TestContract(StrategyContract):
    def build(self, queries: int) -> Strategy:
        return wrapped(queries)


def test_a_role_with_one_model_is_left_alone() -> None:
    plain = search.make(StrategyConfig("pike-b"), Budget(queries=10), 7)
    assert over_models(plain, {Role.OPTIMISE: ("only",)}, 7) is plain
    calls = drive(wrapped(40), landscape(1))
    assert {step.model for step in steps_of(calls) if step.role is Role.BRAINSTORM} == {""}
    assert {step.model for step in steps_of(calls) if step.role is Role.OPTIMISE} == {"small", "large"}


def test_decisions_of_the_wrapped_strategy_stay() -> None:
    calls = drive(wrapped(120), landscape(3), concurrency=6)
    plain = drive(search.make(StrategyConfig("pike-b"), Budget(queries=120), 7), landscape(3), concurrency=6)
    assert [replace(step, model="") for step in steps_of(calls)] == steps_of(plain)


@pytest.mark.parametrize(("worth", "better"), [(2.0, "small"), (9.0, "large")])
def test_gain_for_a_dollar_decides_who_writes(worth: float, better: str) -> None:
    """`large` costs four times as much: it is worth that if it gains more than four times as much."""

    counts = asked(200, _compounding(worth), Role.OPTIMISE)
    assert counts[better] > 120, counts


def _compounding(worth: float) -> World:
    """Each child is faster than its seed, by `worth` times as much if `large` wrote it."""
    speed = {"original": 10.0}

    def world(step: Step) -> Outcome:
        if step.role is Role.BRAINSTORM:
            return Outcome(step.id, ideas=("an idea",), usd=0.1)
        ms = speed[step.seed] * 0.97 ** (worth if step.model == "large" else 1.0)
        speed[f"c{step.id}"] = ms
        return Outcome(step.id, candidate_for(step), valid(ms), usd=0.4 if step.model == "large" else 0.1)

    return world


def _mending(share: dict[str, int], usd: Callable[[Step], float | None]) -> World:
    """Nothing is right at first; of its repairs a model gets `share` in ten right."""

    def world(step: Step) -> Outcome:
        if step.role is Role.BRAINSTORM:
            return Outcome(step.id, ideas=("an idea",), usd=0.1)
        good = step.role is Role.FIX and (step.id * 7) % 10 < share[step.model]
        return Outcome(step.id, candidate_for(step), valid(5.0) if good else refused(), usd=usd(step))

    return world


def test_repairs_for_a_dollar_decide_who_repairs() -> None:
    def usd(step: Step) -> float:
        return 0.4 if step.model == "large" else 0.1

    cheap_enough = asked(300, _mending({"small": 4, "large": 6}, usd), Role.FIX)
    hopeless = asked(300, _mending({"small": 0, "large": 6}, lambda step: 0.1), Role.FIX)
    assert cheap_enough["small"] > 2 * cheap_enough["large"]
    assert hopeless["large"] > 2 * hopeless["small"]


def test_without_a_price_queries_count() -> None:
    """The better model is chosen when its dollars are unknown, although it would lose by them."""

    def usd(step: Step) -> float | None:
        return None if step.model == "large" else 0.001

    counts = asked(300, _mending({"small": 1, "large": 8}, usd), Role.FIX)
    assert counts["large"] > 2 * counts["small"]


def test_whoever_writes_what_has_to_be_repaired_pays_for_the_repairs() -> None:
    """Equal gains at equal price, but `small` needs repairs: `large` ends up writing."""

    def world(step: Step) -> Outcome:
        if step.role is Role.BRAINSTORM:
            return Outcome(step.id, ideas=("an idea",), usd=0.1)
        good = step.attempt == 3 or (step.model == "large" and step.role is Role.OPTIMISE)
        return Outcome(step.id, candidate_for(step), valid(5.0) if good else refused(), usd=0.1)

    counts = asked(300, world, Role.OPTIMISE, "pike-b:no-iba")
    assert counts["large"] > 2 * counts["small"], counts


def test_a_repaired_program_earns_for_its_writer_and_repairs_are_on_his_account() -> None:
    """Nobody is right at first; only what `large` wrote becomes fast once it is repaired."""
    wrote: dict[str, str] = {}

    def world(step: Step) -> Outcome:
        if step.role is Role.BRAINSTORM:
            return Outcome(step.id, ideas=("an idea",), usd=0.1)
        if step.role is Role.OPTIMISE:
            wrote[f"c{step.id}"] = step.model
            return Outcome(step.id, candidate_for(step), refused(), usd=0.1)
        fast = wrote[step.failing or ""] == "large"
        return Outcome(step.id, candidate_for(step), valid(4.0 if fast else 9.9), usd=0.1)

    counts = asked(200, world, Role.OPTIMISE, "best-of-n-repaired")
    assert counts["large"] > 2 * counts["small"], counts


def test_what_was_learnt_is_rebuilt() -> None:
    world = _compounding(3.0)
    calls = drive(wrapped(150), world, concurrency=5)
    for cut in range(0, len(calls), 37):
        strategy = wrapped(150)
        replay(strategy, calls[:cut])
        replay(strategy, calls[cut:])
        assert strategy.done
