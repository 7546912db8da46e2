"""The contract of strategies, over every preset of the catalogue, every option, and mixes of options drawn at random."""

from __future__ import annotations

import random
from typing import Any

import pytest
from strategy_contract import StrategyContract

from pike import search
from pike.core.budget import Budget
from pike.core.config import StrategyConfig
from pike.core.step import Strategy
from pike.search.choices import (
    BudgetCheck,
    Diversity,
    Duplicates,
    Fixer,
    FixOrder,
    InspirationKind,
    LibraryKind,
    Memory,
    Repair,
    Roles,
    RoundEnd,
    ScopeKind,
    Seeding,
    SelectionKind,
)
from pike.search.options import Options

VARIANTS: dict[str, dict[str, Any]] = {
    "memory=run": {"memory": "run"},
    "distinct": {"diversity": "distinct"},
    "round-budget": {"budget_check": "round"},
    "round-budget,fair,run": {"budget_check": "round", "fix_order": "fair", "memory": "run"},
    "fair": {"fix_order": "fair"},
    "quorum": {"round_end": "quorum", "quorum": 0.5},
    "quorum,fair,run,distinct": {
        "round_end": "quorum",
        "quorum": 0.1,
        "fix_order": "fair",
        "memory": "run",
        "diversity": "distinct",
    },
    "quorum,round-budget": {"round_end": "quorum", "quorum": 0.3, "budget_check": "round"},
    "seeding=original": {"seeding": "original"},
    "seeding=seeds": {"seeding": "seeds"},
    "once": {"duplicates": "once"},
    "narrow": {"queries_per_round": 1, "top_k": 1, "fix_attempts": 1},
    "wide": {"queries_per_round": 23, "top_k": 30, "fix_attempts": 2},
    "deferred": {"repair": "deferred", "fix_order": "fair", "memory": "run", "repair_share": 1.0},
    "deferred,short memory": {"repair": "deferred"},
    "adaptive": {"scope": "adaptive", "plateau": 3},
    "steady,small archive": {"pacing": "steady", "memory": "run", "archive_size": 3, "first_attempts": 5},
}


def mixes(count: int) -> dict[str, dict[str, Any]]:
    """Options drawn independently, each value as often; what has no rounds is given a memory and an end without them."""
    rng = random.Random(4)
    columns: dict[str, list[Any]] = {}
    for name, values in DRAWN.items():
        column = [values[number % len(values)] for number in range(count)]
        rng.shuffle(column)
        columns[name] = column
    found = {}
    for number in range(count):
        options: dict[str, Any] = {name: column[number] for name, column in columns.items()}
        if options["pacing"] == "steady":
            options |= {"round_end": "all", "budget_check": "query", "memory": "run"}
        found[f"mix-{number}: " + ",".join(str(value) for value in options.values())] = options
    return found


DRAWN: dict[str, list[Any]] = {
    "pacing": ["rounds", "steady"],
    "library": list(LibraryKind),
    "selection": list(SelectionKind),
    "inspiration": list(InspirationKind),
    "repair": list(Repair),
    "fixer": list(Fixer),
    "roles": list(Roles),
    "scope": list(ScopeKind),
    "fix_order": list(FixOrder),
    "memory": list(Memory),
    "diversity": list(Diversity),
    "duplicates": list(Duplicates),
    "round_end": list(RoundEnd),
    "budget_check": list(BudgetCheck),
    "ideas": [True, False],
    "in_flight": [1, 3, 20],
    "top_k": [1, 4],
    "archive_size": [0, 2],
    "first_attempts": [0, 5],
    "fix_attempts": [0, 1, 5],
    "repair_share": [0.3, 1.0],
    "root_children": [1, 5],
    "failing_children": [0, 3],
}
MIXES = mixes(8)


class _Configured(StrategyContract):
    config: StrategyConfig

    def build(self, queries: int) -> Strategy:
        return search.make(self.config, Budget(queries=queries), run_seed=7)

    @property
    def unspent(self) -> int:  # type: ignore[override]
        options = search.options_of(self.config)
        return options.move_queries - 1 if isinstance(options, Options) else 0

    @property
    def uses_seeds(self) -> bool:  # type: ignore[override]
        options = search.options_of(self.config)
        if not isinstance(options, Options):
            return True
        chain_of_its_own = options.selection is SelectionKind.LAST and options.seeding is Seeding.ORIGINAL
        return options.selection is not SelectionKind.ORIGINAL and not chain_of_its_own

    @property
    def free(self) -> bool:  # type: ignore[override]
        options = search.options_of(self.config)
        return isinstance(options, Options) and options.free

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
