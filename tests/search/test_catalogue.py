"""Names of strategies and options: what is offered, and what a typing error is told."""

from __future__ import annotations

import math
from typing import Any

import pytest
from search_worlds import landscape

from pike import search
from pike.core.errors import UserError
from pike.core.settings.budget import Budget
from pike.core.settings.config import RunConfig, StrategyConfig
from pike.core.settings.merging import merge
from pike.search.allocation import even_split


def make(preset: str = "pike-b", queries: int = 300, **options: Any) -> Any:
    return search.make(StrategyConfig(preset, options), Budget(queries=queries), 0)


def test_presets_say_how_they_differ_from_the_plain_one() -> None:
    found = {preset.name: dict(preset.differences) for preset in search.presets()}
    assert found["pike-b"] == {}
    assert found["pike-b:no-efa"] == {"repair": "none"}
    assert found["pike-b:no-iba"] == {"ideas": "false"}
    assert found["pike-b:elitist"]["library.memory"] == "run"
    assert all(preset.summary for preset in search.presets())
    assert RunConfig().strategy.preset in found


@pytest.mark.parametrize(
    ("preset", "options", "message"),
    [
        ("pike-bee", {}, "Unknown strategy 'pike-bee'; did you mean 'pike-b'?"),
        ("pike-b", {"libary": "pool"}, "Unknown setting 'strategy.libary'; did you mean 'library'?"),
        ("pike-b", {"memory": "run"}, "Unknown setting 'strategy.memory'; did you mean 'library.memory'?"),
        ("pike-b", {"top_k": 2}, "Unknown setting 'strategy.top_k'; it is 'strategy.selection.k' now"),
        (
            "pike-b",
            {"library": {"memory": "long"}},
            "Setting 'strategy.library.memory' cannot be 'long': choose 'round' or 'run'",
        ),
        ("pike-b", {"selection": {"k": 0}}, "Setting 'strategy.selection.k' must be at least 1, not 0"),
        ("pike-b", {"repair": {"attempts": 0}}, "Setting 'strategy.repair.attempts' must be at least 1, not 0"),
        ("pike-b", {"pacing": {"samples": "ten"}}, "Setting 'strategy.pacing.samples' cannot be 'ten'"),
        ("pike-b", {"pacing": {"quorum": 0}}, "Setting 'strategy.pacing.quorum' must be above 0 and at most 1"),
        ("pike-b", {"temperature": math.nan}, "Setting 'strategy.temperature' must be between 0 and 2"),
        (
            "pike-b",
            {"selection": {"epsilon": 0.2}},
            "Setting 'strategy.selection.epsilon' is a dial of 'epsilon-greedy', not of 'top-k'",
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_its_cure(preset: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        make(preset, **options)
    assert str(caught.value).startswith(message)


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(UserError, match=r"budget\.queries"):
        make(queries=-1)


def test_settings_from_the_command_line_reach_the_strategy() -> None:
    config = merge(RunConfig(), {"strategy": {"preset": "pike-b", "pacing": {"samples": 2}, "ideas": False}})
    strategy = search.make(config.strategy, config.budget, 0)
    assert [strategy.ask() is None for _ in range(3)] == [False, False, True]


def test_a_resolved_configuration_says_everything_and_means_the_same() -> None:
    config = search.resolve(StrategyConfig("pike-b:elitist", {"selection": {"k": 2}}))
    assert config.options["selection"]["k"] == 2
    assert config.options["library"]["memory"] == "run"
    assert set(config.options) == {name.partition(".")[0] for name, _ in search.info("pike-b").options}
    assert search.resolve(config) == config


@pytest.mark.parametrize("total", range(25))
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7])
def test_even_split_loses_nothing_and_favours_the_first(total: int, parts: int) -> None:
    split = even_split(total, parts)
    assert sum(split) == total
    assert len(split) == parts
    assert max(split) - min(split) <= 1
    assert list(split) == sorted(split, reverse=True)


def test_a_stuck_strategy_is_a_bug_that_is_seen() -> None:
    class Stuck:
        done = False

        def ask(self) -> None:
            return None

    with pytest.raises(RuntimeError, match="stuck"):
        search.drive(Stuck(), lambda step: step)  # type: ignore[arg-type, return-value]


def test_replaying_another_run_is_refused() -> None:
    calls = search.drive(make(queries=20), landscape(1))
    with pytest.raises(ValueError, match="recorded"):
        search.replay(make("pike-b:no-iba", queries=20), calls)


MIX = {
    "my-mix": {"base": "stark", "selection": {"epsilon": 0.1}},
    "mine:2": {"base": "my-mix", "pacing": {"in_flight": 4}, "summary": "two at it"},
    "rounds": {"base": "mine:2", "pacing": {"kind": "rounds", "samples": 3}},
}


def test_a_named_strategy_is_resolved_to_a_preset_and_all_its_options() -> None:
    config = search.resolve(StrategyConfig("mine:2", {"inspiration": {"leaders": 2}}), MIX)
    assert (config.preset, config.name, config.label) == ("stark", "mine:2", "mine:2")
    assert config.options["selection"]["epsilon"] == 0.1
    assert config.options["pacing"] == {"kind": "steady", "in_flight": 4, "first_attempts": 0}
    assert config.options["inspiration"] == {"kind": "windows", "leaders": 2, "relatives": 8}
    assert config.options["library"] == {"kind": "tree"}
    assert search.resolve(config) == config  # without the file
    search.make(config, Budget(queries=3), 0)


def test_another_kind_starts_from_its_own_defaults_and_not_from_the_dials_of_the_base() -> None:
    pacing = search.resolve(StrategyConfig("rounds"), MIX).options["pacing"]
    assert pacing == {"kind": "rounds", "samples": 3, "quorum": 1.0, "budget_check": "query"}


def test_named_strategies_are_listed_with_what_differs_from_their_base() -> None:
    found = {preset.name: preset for preset in search.presets(MIX)}
    assert (found["my-mix"].base, found["my-mix"].differences) == ("stark", (("selection.epsilon", "0.1"),))
    assert found["mine:2"].summary == "two at it"
    assert dict(found["stark:search-only"].differences) == {"roles": "optimise", "repair.fixer": "efa"}
    assert found["best-of-n"].base == "pike-b"
    assert (found["pike-b"].base, found["pike-b"].differences) == ("", ())
    assert dict(found["agent"].differences)["pacing"] == "steady"
    differs = {"pacing": "steady", "library.memory": "run", "selection": "original", "repair": "none", "ideas": "false"}
    assert dict(found["best-of-n"].differences) == differs  # dials of another kind only where they are not its defaults


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"x": {"base": "starck"}}, "Unknown strategy 'starck'; did you mean 'stark'?"),
        ({"x": {"epsilon": 0.1}}, 'The strategy [strategies.x] needs a base, for example base = "pike-b"'),
        ({"x": 3}, "The strategy [strategies.x] needs a base"),
        ({"x": {"base": "y"}, "y": {"base": "x"}}, "The strategy [strategies.x] is its own base"),
        ({"x": {"base": "pike-b", "scoop": 1}}, "Unknown setting 'strategies.x.scoop'; did you mean 'scope'?"),
        (
            {"x": {"base": "pike-b", "library": "pond"}},
            "Setting 'strategies.x.library' cannot be 'pond': choose 'pool'",
        ),
        ({"pike-b": {"base": "stark"}, "x": {"base": "pike-b"}}, "The strategy [strategies.pike-b] has the name of"),
        ({"other": {"base": "stark"}}, "Unknown strategy 'x'"),
    ],
)
def test_a_named_strategy_that_cannot_be_used_says_why(named: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        search.resolve(StrategyConfig("x"), named)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pacing": "steady"}, "Setting 'strategy.library.memory' cannot be 'round' with strategy.pacing 'steady'"),
        ({"selection": "ratio"}, "Setting 'strategy.selection.elites' cannot be '0' with strategy.library 'pool'"),
        ({"inspiration": "drawn"}, "Setting 'strategy.inspiration.others' cannot be '3' with strategy.library 'pool'"),
        ({"repair": "chosen"}, "Setting 'strategy.repair' cannot be 'chosen' with strategy.selection 'top-k'"),
        (
            {"repair": "deferred", "selection": "epsilon-greedy"},
            "Setting 'strategy.repair' cannot be 'deferred' with strategy.selection 'epsilon-greedy'",
        ),
        (
            {"pacing": {"kind": "steady", "first_attempts": 2}, "library": "tree", "selection": "original"},
            "Setting 'strategy.pacing.first_attempts' cannot be '2' with strategy.selection 'original'",
        ),
        (
            {"library": "islands", "selection": {"kind": "ratio", "exploration": 0.5}},
            "Settings 'strategy.selection.exploration' (0.5) and 'strategy.selection.exploitation' (0.7) must not",
        ),
        (
            {"selection": {"kind": "epsilon-greedy", "epsilon": 1.5}},
            "Setting 'strategy.selection.epsilon' must be between 0 and 1, not 1.5",
        ),
        ({"selection": "best"}, "Setting 'strategy.selection' cannot be 'best': choose 'top-k' or 'weighted' or"),
    ],
)
def test_what_excludes_each_other_is_said_in_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        make("pike-b", **options)
    assert str(caught.value).startswith(message)
    assert str(caught.value).count("\n") == 0
