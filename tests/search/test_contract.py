"""The contract of strategies, over every preset of the catalogue, every option, and mixes of options drawn at random."""

from __future__ import annotations

import random
from typing import Any

import pytest
from strategy_contract import StrategyContract

from pike import search
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import Strategy
from pike.search.options.search import SearchOptions
from pike.search.options.selection import Latest, OriginalOnly

VARIANTS: dict[str, dict[str, Any]] = {
    "memory=run": {"library": {"memory": "run"}},
    "distinct": {"selection": {"distinct": 1}},
    "round-budget": {"pacing": {"budget_check": "round"}},
    "round-budget,fair,run": {
        "pacing": {"budget_check": "round"},
        "repair": {"order": "fair"},
        "library": {"memory": "run"},
    },
    "fair": {"repair": {"order": "fair"}},
    "quorum": {"pacing": {"quorum": 0.5}},
    "quorum,fair,run,distinct": {
        "pacing": {"quorum": 0.1},
        "repair": {"order": "fair"},
        "library": {"memory": "run"},
        "selection": {"distinct": 1},
    },
    "quorum,round-budget": {"pacing": {"quorum": 0.3, "budget_check": "round"}},
    "seeding=original": {"selection": {"seeding": "original"}},
    "seeding=seeds": {"selection": {"seeding": "seeds"}},
    "once": {"library": {"duplicates": "once"}},
    "narrow": {"pacing": {"samples": 1}, "selection": {"k": 1}, "repair": {"attempts": 1}},
    "wide": {"pacing": {"samples": 23}, "selection": {"k": 30}, "repair": {"attempts": 2}},
    "deferred": {"repair": {"kind": "deferred", "order": "fair", "share": 1.0}, "library": {"memory": "run"}},
    "deferred,short memory": {"repair": "deferred"},
    "adaptive": {"scope": {"kind": "adaptive", "plateau": 3}},
    "steady,small pool": {
        "pacing": {"kind": "steady", "first_attempts": 5},
        "library": {"memory": "run", "size": 3},
    },
}

PARTS: dict[str, list[Any]] = {
    "pacing": [
        "rounds",
        {"kind": "rounds", "quorum": 0.8, "budget_check": "round"},
        {"kind": "steady", "in_flight": 1},
        {"kind": "steady", "in_flight": 3, "first_attempts": 5},
        "steady",
    ],
    "library": ["pool", {"kind": "pool", "memory": "run", "size": 2, "duplicates": "once"}, "tree", "islands"],
    "selection": [
        {"kind": "top-k", "k": 1},
        {"kind": "top-k", "distinct": 1},
        "weighted",
        {"kind": "ratio", "elites": 2},
        "epsilon-greedy",
        {"kind": "epsilon-greedy", "root_children": 1, "failing_children": 0},
        "original",
        "latest",
    ],
    "inspiration": ["none", "drawn", "windows", "fastest"],
    "repair": [
        "none",
        {"kind": "immediate", "attempts": 1, "order": "fair"},
        {"kind": "immediate", "fixer": "debug"},
        {"kind": "deferred", "share": 0.3},
        {"kind": "deferred", "share": 1.0, "order": "fair", "fixer": "debug"},
    ],
    "roles": ["optimise", "plan-code"],
    "scope": ["any", "adaptive"],
    "ideas": [True, False],
}


def mixes(count: int) -> dict[str, dict[str, Any]]:
    """Parts drawn independently, each as often; a part that another one excludes is changed to fit."""
    rng = random.Random(4)
    columns: dict[str, list[Any]] = {}
    for name, values in PARTS.items():
        column = [values[number % len(values)] for number in range(count)]
        rng.shuffle(column)
        columns[name] = column
    drawn = [{name: column[number] for name, column in columns.items()} for number in range(count)]
    return {f"mix-{number}: {_words(parts)}": _fitting(parts) for number, parts in enumerate(drawn)}


def _words(parts: dict[str, Any]) -> str:
    return ",".join(value["kind"] if isinstance(value, dict) else str(value).lower() for value in parts.values())


def _fitting(parts: dict[str, Any]) -> dict[str, Any]:
    pacing, library, selection, inspiration, repair = (
        {"kind": parts[name]} if isinstance(parts[name], str) else dict(parts[name])
        for name in ("pacing", "library", "selection", "inspiration", "repair")
    )
    if pacing["kind"] == "steady" and library["kind"] == "pool":
        library["memory"] = "run"
    if selection["kind"] not in ("top-k", "weighted"):
        pacing.pop("first_attempts", None)
    if library["kind"] == "islands":
        selection.pop("elites", None)
    elif inspiration["kind"] == "drawn":
        inspiration["others"] = 0
    if repair["kind"] == "deferred" and selection["kind"] in ("epsilon-greedy", "latest"):
        repair = {"kind": "chosen", "attempts": 5}
    fitted = {"pacing": pacing, "library": library, "selection": selection}
    return {**parts, **fitted, "inspiration": inspiration, "repair": repair}


MIXES = mixes(10)


class _Configured(StrategyContract):
    config: StrategyConfig

    def build(self, queries: int) -> Strategy:
        return search.make(self.config, Budget(queries=queries), run_seed=7)

    @property
    def unspent(self) -> int:  # type: ignore[override]
        options = search.options_of(self.config)
        return options.roles.queries - 1 if isinstance(options, SearchOptions) else 0

    @property
    def uses_seeds(self) -> bool:  # type: ignore[override]
        options = search.options_of(self.config)
        if not isinstance(options, SearchOptions):
            return True
        chosen = options.selection
        return chosen.from_admitted if isinstance(chosen, Latest) else not isinstance(chosen, OriginalOnly)

    @property
    def free(self) -> bool:  # type: ignore[override]
        options = search.options_of(self.config)
        return isinstance(options, SearchOptions) and options.free

    def most_queries(self, queries: int) -> int:
        return search.most_queries(self.config, Budget(queries=queries))


@pytest.mark.usefixtures("_preset")
class TestEveryPreset(_Configured):
    concurrencies = (1, 2, 3, 5, 10, 20)
    salts = (0, 1)
    cut_every = 2

    @pytest.fixture(params=[preset.name for preset in search.presets()])
    def _preset(self, request: pytest.FixtureRequest) -> None:
        self.config = StrategyConfig(request.param)

    def test_never_spends_more_than_the_user_allowed(self) -> None:
        for queries in (0, 1, 300):
            assert self.most_queries(queries) == (0 if self.free else queries)


@pytest.mark.usefixtures("_variant")
class TestEveryOption(_Configured):
    concurrencies = (1, 2, 5, 20)
    salts = (0, 1)
    cut_every = 3

    @pytest.fixture(params=list(VARIANTS))
    def _variant(self, request: pytest.FixtureRequest) -> None:
        self.config = StrategyConfig("pike-b", VARIANTS[request.param])


@pytest.mark.usefixtures("_mix")
class TestAnyMix(_Configured):
    """Every library, selection, inspiration, repair and role set goes with every other."""

    concurrencies = (1, 7)
    salts = (1, 2)
    cut_every = 9

    @pytest.fixture(params=list(MIXES))
    def _mix(self, request: pytest.FixtureRequest) -> None:
        self.config = StrategyConfig("pike-b", MIXES[request.param])
