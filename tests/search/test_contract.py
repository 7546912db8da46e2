"""The contract of strategies, over every preset of the catalogue and every value of every option of branching."""

from __future__ import annotations

from typing import Any

import pytest
from strategy_contract import StrategyContract

from pike import search
from pike.core.budget import Budget
from pike.core.config import StrategyConfig
from pike.core.step import Strategy

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
}


class _Configured(StrategyContract):
    config: StrategyConfig

    def build(self, queries: int) -> Strategy:
        return search.make(self.config, Budget(queries=queries), run_seed=7)

    def most_queries(self, queries: int) -> int:
        return search.most_queries(self.config, Budget(queries=queries))


@pytest.mark.usefixtures("_preset")
class TestEveryPreset(_Configured):
    @pytest.fixture(params=[preset.name for preset in search.presets()])
    def _preset(self, request: pytest.FixtureRequest) -> None:
        self.config = StrategyConfig(request.param)

    def test_never_spends_more_than_the_user_allowed(self) -> None:
        for queries in (0, 1, 300):
            assert self.most_queries(queries) == queries


@pytest.mark.usefixtures("_variant")
class TestEveryOption(_Configured):
    @pytest.fixture(params=list(VARIANTS))
    def _variant(self, request: pytest.FixtureRequest) -> None:
        self.config = StrategyConfig("pike-b", VARIANTS[request.param])
