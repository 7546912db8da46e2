"""Keyword options of the verbs, and how they become the configuration tree.

Knows the layers: defaults, then a file, then keyword options, then `a.b=c` settings.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypedDict, cast, get_type_hints

from pike.core.errors import UserError
from pike.core.settings.bounds import check
from pike.core.settings.config import LlmConfig, RunConfig, StrategyConfig
from pike.core.settings.merging import merge, parse_setting

ModelNames: TypeAlias = str | Sequence[str]
"""The model of a role, or several that the search chooses from."""
ConfigSource: TypeAlias = str | Path | RunConfig
"""A TOML file, or a whole configuration to start from."""


class Options(TypedDict, total=False):
    """The options of `pike.optimize`, each with its place in the configuration.

    An absent option and None stay as configured.
    """

    strategy: Annotated[str | None, "strategy.preset"]
    llm: Annotated[ModelNames | None, "llm.coa"]
    efa_llm: Annotated[ModelNames | None, "llm.efa"]
    iba_llm: Annotated[ModelNames | None, "llm.iba"]
    plan_llm: Annotated[ModelNames | None, "llm.plan"]
    code_llm: Annotated[ModelNames | None, "llm.code"]
    debug_llm: Annotated[ModelNames | None, "llm.debug"]
    seed_recipes: Annotated[bool | None, "llm.seed_recipes"]
    query_budget: Annotated[int | None, "budget.queries"]
    usd_budget: Annotated[float | None, "budget.usd"]
    max_minutes: float | None
    device: Annotated[str | None, "evaluate.device"]
    devices: Annotated[str | Sequence[str] | None, "engine.devices"]
    executor: Annotated[str | None, "engine.executor"]
    tolerance: Annotated[str | None, "evaluate.tolerance"]
    precision: Annotated[str | None, "evaluate.precision"]
    concurrency: Annotated[int | None, "engine.concurrency"]
    run_seed: Annotated[int | None, "engine.run_seed"]
    config: ConfigSource | None
    settings: Sequence[str]


_PLACES: dict[str, str] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Options, include_extras=True).items()
    if hasattr(hint, "__metadata__")
}

EXTERNAL = RunConfig(strategy=StrategyConfig("agent"), llm=LlmConfig("by-hand"))
"""The defaults of the strategy `agent`: its steps are answered from outside."""
_NO_MODEL = RunConfig(strategy=StrategyConfig("recipes"))
"""The defaults where no language model is named."""


def given(arguments: Mapping[str, Any]) -> Options:
    """Pick the given options out of a function's arguments.

    A function with options calls this first, with `locals()`, which holds its arguments alone then.
    """
    found = {name: arguments[name] for name in Options.__annotations__ if arguments.get(name) is not None}
    return cast(Options, found)


def compose_config(task: str, options: Options) -> RunConfig:
    """Compose the configuration of a run from its layers.

    Args:
        task: the target as text.
        options: keyword options.

    Raises:
        UserError: an option or a setting has an unusable value, or a key is unknown.
    """
    config = _layered(options, RunConfig())
    if not config.llm.asks_models:
        config = _layered(options, _NO_MODEL)
    if config.strategy.preset == EXTERNAL.strategy.preset and not isinstance(options.get("config"), RunConfig):
        config = _layered(options, EXTERNAL)
    check_settings(config)
    return merge(config, {"task": task})


def read_toml(path: Path) -> Mapping[str, Any]:
    """Read a configuration file.

    Raises:
        UserError: it cannot be read or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"The configuration file {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"The configuration file {path} is no TOML: {error}") from error


def check_settings(config: RunConfig) -> None:
    """Refuse numbers and devices that make no sense.

    Raises:
        UserError: naming the setting and what it can be.
    """
    for section in ("llm", "budget", "evaluate", "engine", "prompt"):
        part = getattr(config, section)
        for field in fields(part):
            check(f"{section}.{field.name}", getattr(part, field.name))
    if config.engine.devices and config.evaluate.device not in ("auto", "cuda"):
        raise UserError(
            f"Give either one device ({config.evaluate.device}) or several ({', '.join(config.engine.devices)})"
        )


def _layered(options: Options, defaults: RunConfig) -> RunConfig:
    config = _base(options.get("config"), defaults)
    minutes = options.get("max_minutes")
    if minutes is not None:
        if not isinstance(minutes, int | float) or minutes < 0:
            raise UserError(f"max_minutes is {minutes!r}: give a number of minutes from 0, for example 10")
        config = _put(config, "engine.max_hours", minutes / 60.0)
    for name, place in _PLACES.items():
        if options.get(name) not in (None, [], ()):
            value: object = options.get(name)
            config = _put(config, place, names_of(options["devices"] or ()) if name == "devices" else value)
    settings = options.get("settings") or ()
    for setting in [settings] if isinstance(settings, str) else settings:
        config = merge(config, parse_setting(setting))
    return config


def names_of(devices: str | Sequence[str]) -> list[str]:
    """Device names, given one by one or with commas between them."""
    return [name.strip() for name in devices.split(",")] if isinstance(devices, str) else list(devices)


def _base(config: ConfigSource | None, defaults: RunConfig) -> RunConfig:
    if config is None or isinstance(config, RunConfig):
        return config or defaults
    return merge(defaults, read_toml(Path(config)))


def _put(config: RunConfig, place: str, value: object) -> RunConfig:
    section, _, key = place.partition(".")
    return merge(config, {section: {key: value}})
