"""Keyword options of the verbs, and how they become the configuration tree.

Knows the layers: defaults, then a file, then keyword options, then `a.b=c` settings. Does not know what any option
does.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from pike.core.config import RunConfig, merge, nearest, parse_setting
from pike.core.errors import UserError


class Options(TypedDict, total=False):
    """What `optimize`, `evaluate` and `estimate` take by keyword; what is absent or None stays as configured.

    Attributes:
        strategy: a preset, for example `pike-b`.
        llm: the model of the optimising agent, `none` for recipes.
        efa_llm: the model of the error fixing agent, empty for the same.
        iba_llm: the model of the brainstorming agent, empty for the same.
        seed_recipes: put valid recipes into the library first.
        query_budget: the most queries.
        usd_budget: the most money.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        tolerance: `strict` or `paper`.
        precision: `same`, `tf32` or `half`.
        concurrency: steps in flight at once.
        run_seed: the seed of every random stream.
        config: a TOML file, or a whole configuration to start from.
        settings: `a.b=c` settings, which win over everything else.
    """

    strategy: str | None
    llm: str | None
    efa_llm: str | None
    iba_llm: str | None
    seed_recipes: bool | None
    query_budget: int | None
    usd_budget: float | None
    device: str | None
    tolerance: str | None
    precision: str | None
    concurrency: int | None
    run_seed: int | None
    config: str | Path | RunConfig | None
    settings: Sequence[str]


_PLACES = {
    "strategy": "strategy.preset",
    "llm": "llm.coa",
    "efa_llm": "llm.efa",
    "iba_llm": "llm.iba",
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
    config = _base(given.get("config"))
    for name, place in _PLACES.items():
        if given.get(name) is not None:
            config = merge(config, _nested(place, given[name]))
    settings = given.get("settings") or ()
    for setting in [settings] if isinstance(settings, str) else settings:
        config = merge(config, parse_setting(setting))
    _check(config)
    return merge(config, {"task": task})


def _base(config: str | Path | RunConfig | None) -> RunConfig:
    if config is None:
        return RunConfig()
    if isinstance(config, RunConfig):
        return config
    try:
        layer = tomllib.loads(Path(config).read_text())
    except OSError as error:
        raise UserError(f"The configuration file {config} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"The configuration file {config} is no TOML: {error}") from error
    return merge(RunConfig(), layer)


def _nested(place: str, value: Any) -> dict[str, Any]:
    for key in reversed(place.split(".")):
        value = {key: value}
    return dict(value)


def _check(config: RunConfig) -> None:
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
