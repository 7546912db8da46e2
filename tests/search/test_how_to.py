"""The page on adding a strategy holds: its family passes the contract suite, and its table can be used."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from strategy_contract import StrategyContract

from pike import search
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import Strategy

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-strategy.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def family() -> ModuleType:
    module = ModuleType("family_of_the_page")
    sys.modules[module.__name__] = module
    exec("".join(blocks("python")), vars(module))
    return module


class TestFamilyOfThePage(StrategyContract):
    concurrencies = (1, 2, 7, 20)
    salts = (0, 1)

    @pytest.fixture(autouse=True)
    def _family(self, family: ModuleType) -> None:
        (self.preset,) = family.PRESETS

    def build(self, queries: int) -> Strategy:
        strategy: Strategy = self.preset.build(self.preset.options, Budget(queries=queries), 7)
        return strategy


def test_the_table_of_the_page_names_a_strategy_that_can_be_made() -> None:
    (table,) = blocks("toml")
    given = tomllib.loads(table)
    config = search.resolve(StrategyConfig(given["strategy"]["preset"]), given["strategies"])
    assert (config.preset, config.label) == ("stark", "patient-tree")
    assert config.options["pacing"] == {"kind": "steady", "in_flight": 4, "first_attempts": 0}
    assert not search.make(config, Budget(queries=10), 0).done
