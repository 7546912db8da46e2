"""How options, files and settings become a configuration."""

from __future__ import annotations

import math
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from pike.api.options import compose_config
from pike.core.errors import UserError
from pike.core.settings.bounds import BOUNDS
from pike.core.settings.budget import Budget
from pike.core.settings.config import EngineConfig, RunConfig, StrategyConfig
from pike.core.step import Role
from pike.core.verdict.evaluation import Precision, Tolerance

WITHOUT_A_MODEL = RunConfig(task="t", strategy=StrategyConfig("recipes"))


def test_defaults_then_file_then_options_then_settings(tmp_path: Path) -> None:
    file = tmp_path / "pike.toml"
    file.write_text('[budget]\nqueries = 10\nusd = 1.5\n[llm]\ncoa = "none"\n[engine]\nconcurrency = 2\n')
    config = compose_config("t", {"config": file, "query_budget": 20, "settings": ["engine.concurrency=3"]})
    assert (config.budget.queries, config.budget.usd, config.engine.concurrency) == (20, 1.5, 3)
    assert config.engine.finalists == RunConfig().engine.finalists
    assert config.task == "t"


def test_every_option_arrives() -> None:
    config = compose_config(
        "t",
        {
            "strategy": "pike-b:no-efa",
            "llm": "openai:a",
            "efa_llm": "openai:b",
            "iba_llm": "none",
            "seed_recipes": True,
            "query_budget": 7,
            "usd_budget": 3,
            "device": "cuda:1",
            "tolerance": "paper",
            "precision": "half",
            "concurrency": 4,
            "run_seed": 9,
        },
    )
    assert config.strategy.preset == "pike-b:no-efa"
    assert (config.llm.coa, config.llm.efa, config.llm.iba, config.llm.seed_recipes) == (
        "openai:a",
        "openai:b",
        "none",
        True,
    )
    assert (config.budget.queries, config.budget.usd) == (7, 3.0)
    assert (config.evaluate.device, config.evaluate.tolerance, config.evaluate.precision) == (
        "cuda:1",
        Tolerance.PAPER,
        Precision.HALF,
    )
    assert (config.engine.concurrency, config.engine.run_seed) == (4, 9)


def test_a_role_may_have_several_models(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[llm]\ncoa = ["openai:a", "openai:b", "openai:a"]\nefa = ["openai:c"]\n')
    config = compose_config("t", {"config": file, "plan_llm": ["openai:p", "openai:q"], "debug_llm": "openai:d"})
    assert config.llm.coa == ("openai:a", "openai:b")
    assert config.llm.efa == "openai:c"
    assert config.llm.models(Role.PLAN) == ("openai:p", "openai:q")
    assert config.llm.models(Role.CODE) == ("openai:a", "openai:b")
    assert config.llm.models(Role.DEBUG) == ("openai:d",)
    set_ = compose_config("t", {"settings": ['llm.coa=["openai:a", "openai:b"]', "llm.code=openai:e"]})
    assert set_.llm.models(Role.OPTIMISE) == ("openai:a", "openai:b")
    assert set_.llm.models(Role.CODE) == ("openai:e",)
    assert compose_config("t", {"llm": []}) == WITHOUT_A_MODEL


def test_an_option_that_is_none_changes_nothing() -> None:
    assert compose_config("t", {"llm": None, "query_budget": None, "config": None}) == WITHOUT_A_MODEL


def test_without_a_strategy_a_model_decides() -> None:
    assert compose_config("t", {}).strategy.preset == "recipes"
    assert compose_config("t", {"efa_llm": "openai:a"}).strategy.preset == "pike-b"
    assert compose_config("t", {"strategy": "pike-b"}).strategy.preset == "pike-b"
    assert compose_config("t", {"config": RunConfig()}).strategy.preset == "pike-b"


def test_options_of_the_strategy_are_handed_on() -> None:
    config = compose_config("t", {"settings": ["strategy.selection.k=2", "strategy.preset=pike-b"]})
    assert config.strategy.options == {"selection": {"k": 2}}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"settings": ["llm.coa=[1]"]}, "llm.coa"),
        ({"query_budget": "many"}, "budget.queries"),
        ({"query_budget": -1}, "at least 0"),
        ({"max_minutes": -1}, "max_minutes is -1: give a number of minutes"),
        ({"concurrency": 0}, "at least 1"),
        ({"tolerance": "lax"}, "evaluate.tolerance"),
        ({"settings": ["budgett.queries=3"]}, "did you mean 'budget'"),
        ({"settings": ["engine.finalists=0"]}, "at least 1"),
        ({"settings": "nothing"}, "a.b=value"),
        ({"config": "/no/such.toml"}, "cannot be read"),
        ({"max_minutes": math.inf}, "'engine.max_hours' must be between 0 and 1,000,000, not inf"),
        ({"max_minutes": math.nan}, "'engine.max_hours' must be between 0 and 1,000,000, not nan"),
        ({"max_minutes": -1.2}, "max_minutes is -1.2"),
        ({"usd_budget": math.nan}, "'budget.usd' must be at least 0, not nan"),
        ({"settings": ["llm.timeout_seconds=nan"]}, "'llm.timeout_seconds' must be between 0.001 and 1,000,000"),
        ({"settings": ["llm.timeout_seconds=0"]}, "not 0"),
        ({"settings": [f"llm.timeout_seconds=1{'0' * 400}"]}, "llm.timeout_seconds"),
        ({"settings": ["llm.max_attempts=0"]}, "at least 1, not 0"),
        ({"settings": ["llm.top_p=7"]}, "'llm.top_p' must be between 0 and 1, not 7"),
        ({"settings": ["llm.top_k=-1"]}, "at least 1, not -1"),
        ({"settings": ["prompt.most_tokens=-1"]}, "at least 0"),
        ({"settings": ["evaluate.timeout_seconds=nan"]}, "evaluate.timeout_seconds"),
        ({"settings": ["evaluate.max_timing_seconds=-1"]}, "evaluate.max_timing_seconds"),
        ({"settings": ["evaluate.correctness_seeds=0"]}, "at least 1, not 0"),
        ({"config": RunConfig(budget=Budget(usd=math.nan))}, "budget.usd"),
        ({"config": RunConfig(engine=EngineConfig(max_hours=math.inf))}, "engine.max_hours"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_cure(options: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said.replace(".", r"\.")):
        compose_config("t", options)  # type: ignore[arg-type]


def test_each_number_of_a_run_has_bounds() -> None:
    parts = {name: getattr(RunConfig(), name) for name in ("llm", "budget", "evaluate", "engine", "prompt")}
    numbers = {
        f"{name}.{field}"
        for name, part in parts.items()
        for field, hint in get_type_hints(type(part)).items()
        if {int, float} & {hint, *get_args(hint)}
    }
    assert numbers - BOUNDS.keys() == {"engine.run_seed"}


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pike.toml"
    file.write_text("queries: 10")
    with pytest.raises(UserError, match="no TOML"):
        compose_config("t", {"config": file})


def test_minutes_that_are_no_number_are_refused() -> None:
    with pytest.raises(UserError, match="max_minutes is '1': give a number of minutes"):
        compose_config("t", {"max_minutes": "1"})
