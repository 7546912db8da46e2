"""Keyword options of the verbs, and how they become the configuration tree.

Knows the layers: defaults (those of the strategy `agent` differ), then a file, then keyword options, then `a.b=c`
settings. Does not know what any option does.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from pike.core.config import LlmConfig, RunConfig, StrategyConfig, merge, nearest, parse_setting
from pike.core.errors import UserError


class Options(TypedDict, total=False):
    """What `optimize`, `evaluate` and `estimate` take by keyword; what is absent or None stays as configured.

    Attributes:
        strategy: a preset, for example `pike-b`.
        llm: the model of the optimising agent, `none` for recipes, or several models to choose from.
        efa_llm: as `llm` for the error fixing agent, empty for the same.
        iba_llm: as `llm` for the brainstorming agent, empty for the same.
        plan_llm: as `llm` for the planning agent, empty for the same.
        code_llm: as `llm` for the coding agent, empty for the same.
        debug_llm: as `llm` for the debugging agent, empty for the same as `efa_llm`.
        seed_recipes: put valid recipes into the library first.
        query_budget: the most queries.
        usd_budget: the most money.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        tolerance: `strict` or `paper`.
        precision: `same`, `tf32` or `half`.
        max_minutes: stop asking after so many minutes of running; what is in flight comes home, but for recipes, which
            cost nothing.
        concurrency: steps in flight at once.
        run_seed: the seed of every random stream.
        config: a TOML file, or a whole configuration to start from.
        settings: `a.b=c` settings, which win over everything else.
    """

    strategy: str | None
    llm: str | Sequence[str] | None
    efa_llm: str | Sequence[str] | None
    iba_llm: str | Sequence[str] | None
    plan_llm: str | Sequence[str] | None
    code_llm: str | Sequence[str] | None
    debug_llm: str | Sequence[str] | None
    seed_recipes: bool | None
    query_budget: int | None
    usd_budget: float | None
    device: str | None
    tolerance: str | None
    precision: str | None
    max_minutes: float | None
    concurrency: int | None
    run_seed: int | None
    config: str | Path | RunConfig | None
    settings: Sequence[str]


_PLACES = {
    "strategy": "strategy.preset",
    "llm": "llm.coa",
    "efa_llm": "llm.efa",
    "iba_llm": "llm.iba",
    "plan_llm": "llm.plan",
    "code_llm": "llm.code",
    "debug_llm": "llm.debug",
    "seed_recipes": "llm.seed_recipes",
    "query_budget": "budget.queries",
    "usd_budget": "budget.usd",
    "device": "evaluate.device",
    "tolerance": "evaluate.tolerance",
    "precision": "evaluate.precision",
    "concurrency": "engine.concurrency",
    "run_seed": "engine.run_seed",
}
"""Where each option lives in the configuration tree."""

BY_HAND = RunConfig(strategy=StrategyConfig("agent"), llm=LlmConfig("by-hand"))
"""What the strategy `agent` changes of the defaults: somebody outside answers."""


def compose_config(task: str, options: Options) -> RunConfig:
    """The configuration of a run.

    Args:
        task: what the user asked for, as text.
        options: keyword options.

    Raises:
        UserError: an option, a setting or a key of the file is unknown or has an unusable value.
    """
    given: Mapping[str, Any] = options
    for name in given:
        if name not in Options.__annotations__:
            raise UserError(f"Unknown option '{name}'{nearest(name, Options.__annotations__)}")
    config = _layered(given, RunConfig())
    if config.strategy.preset == BY_HAND.strategy.preset and not isinstance(given.get("config"), RunConfig):
        config = _layered(given, BY_HAND)
    check_settings(config)
    return merge(config, {"task": task})


def _layered(given: Mapping[str, Any], defaults: RunConfig) -> RunConfig:
    config = _base(given.get("config"), defaults)
    if given.get("max_minutes") is not None:
        config = merge(config, _nested("engine.max_hours", given["max_minutes"] / 60.0))
    for name, place in _PLACES.items():
        if given.get(name) not in (None, []):
            config = merge(config, _nested(place, given[name]))
    settings = given.get("settings") or ()
    for setting in [settings] if isinstance(settings, str) else settings:
        config = merge(config, parse_setting(setting))
    return config


def _base(config: str | Path | RunConfig | None, defaults: RunConfig) -> RunConfig:
    if config is None:
        return defaults
    if isinstance(config, RunConfig):
        return config
    try:
        layer = tomllib.loads(Path(config).read_text())
    except OSError as error:
        raise UserError(f"The configuration file {config} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"The configuration file {config} is no TOML: {error}") from error
    return merge(defaults, layer)


def _nested(place: str, value: Any) -> dict[str, Any]:
    for key in reversed(place.split(".")):
        value = {key: value}
    return dict(value)


def check_settings(config: RunConfig) -> None:
    """Refuse numbers that make no sense.

    Raises:
        UserError: naming the setting and the least it can be.
    """
    for place, value, least in (
        ("engine.concurrency", config.engine.concurrency, 1),
        ("engine.finalists", config.engine.finalists, 1),
        ("engine.judges", config.engine.judges, 0),
        ("budget.queries", config.budget.queries, 0),
        ("budget.usd", config.budget.usd, 0),
        ("budget.tokens", config.budget.tokens, 0),
        ("engine.max_hours", config.engine.max_hours, 0),
    ):
        if value is not None and value < least:
            raise UserError(f"Setting '{place}' must be at least {least}, not {value}")
