"""With a round that waits for all its samples, decisions do not depend on the order in which verdicts arrive."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_worlds import decisions, landscape

from pike import search
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import Role, Step, Strategy
from pike.core.verdict.evaluation import Status

CONFIGURATIONS: dict[str, StrategyConfig] = {
    preset.name: StrategyConfig(preset.name)
    for preset in search.presets()
    if {("pacing", "rounds"), ("pacing.quorum", "1.0")} <= set(preset.options)
} | {
    name: StrategyConfig("stark" if name == "tree" else "pike-b", options)
    for name, options in {
        "tree": {"pacing": "rounds", "ideas": True, "selection": {"root_children": 10}},
        "drawn": {
            "selection": {"kind": "ratio", "elites": 4},
            "inspiration": {"kind": "drawn", "top": 5, "others": 0},
            "library": {"memory": "run"},
            "roles": "plan-code",
        },
        "weighted": {"selection": {"kind": "weighted", "k": 4}, "inspiration": "fastest", "repair": "deferred"},
        "chain": {"selection": "latest", "repair": "chosen", "scope": "adaptive"},
        "adaptive": {"scope": {"kind": "adaptive", "plateau": 5}, "inspiration": "windows"},
        "fair": {"repair": {"order": "fair"}},
        "round-budget": {"pacing": {"budget_check": "round"}},
        "one-by-one": {"pacing": {"samples": 3}, "selection": {"k": 2}, "library": {"memory": "run"}},
    }.items()
}


def build(config: StrategyConfig, queries: int) -> Strategy:
    return search.make(config, Budget(queries=queries), run_seed=3)


@pytest.mark.parametrize("name", list(CONFIGURATIONS))
@settings(max_examples=30)
@given(data=st.data(), salt=st.integers(0, 50), queries=st.integers(1, 90), concurrency=st.integers(1, 20))
def test_any_order_leads_to_the_same_decisions(
    name: str, data: st.DataObject, salt: int, queries: int, concurrency: int
) -> None:
    config, rng = CONFIGURATIONS[name], data.draw(st.randoms(use_true_random=False))
    world = landscape(salt, valid_rate=rng.choice([0.0, 0.2, 0.5]))
    one_by_one = search.drive(build(config, queries), world)
    permuted = search.drive(build(config, queries), world, concurrency=concurrency, pick=rng.randrange)
    assert decisions(permuted) == decisions(one_by_one)


@pytest.mark.parametrize("queries", range(10, 61))
def test_scarce_fixes_go_where_a_run_one_by_one_in_sample_order_would_send_them(queries: int) -> None:
    """The published rule, written down a second time: sample by sample, each until it is valid or out of attempts."""
    world = landscape(queries, valid_rate=0.2, declines=0.0)
    calls: dict[str, Any] = {"concurrency": 10, "pick": lambda waiting: waiting - 1}
    found = [
        (each.step.sample, each.step.attempt)
        for each in decisions(search.drive(build(StrategyConfig("pike-b", {"ideas": False}), queries), world, **calls))
        if each.step.round == 0 and each.step.attempt
    ]
    assert found == expected_fixes(queries - 10, world)


def expected_fixes(left: int, world: Any) -> list[tuple[int, int]]:
    fixed = []
    for sample in range(10):
        evaluation = world(Step(0, Role.OPTIMISE, 0, sample)).evaluation
        for attempt in range(1, 6):
            if evaluation.status in (Status.VALID, Status.INFRA_ERROR) or left == 0:
                break
            fixed.append((sample, attempt))
            left -= 1
            evaluation = world(Step(0, Role.FIX, 0, sample, attempt=attempt)).evaluation
    return fixed
