"""Every strategy there is, by name: the presets, and those that a configuration adds.

Knows the list of families and how a configuration picks one. Does not know what any of them does. A new family is a
tuple of presets and one entry in `_FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pike.core.budget import Budget
from pike.core.codec import encode
from pike.core.config import StrategyConfig, merge, nearest, overlaid
from pike.core.errors import UserError
from pike.core.step import Strategy
from pike.search import agent, pike_o, pike_x, published
from pike.search.choices import Writer
from pike.search.options import Options
from pike.search.preset import AnyPreset, Needs, PresetInfo

_FAMILIES: tuple[tuple[AnyPreset, ...], ...] = (
    published.PIKE_B,
    pike_o.PIKE_O,
    published.BEST_OF_N,
    published.REFLEXION,
    published.METR,
    published.RECIPES,
    published.STARK,
    pike_x.PIKE_X,
    agent.AGENT,
)
_BY_NAME = {preset.name: preset for family in _FAMILIES for preset in family}
_PLAIN = {preset.name: family[0] for family in _FAMILIES for preset in family}
_DEFAULT = _FAMILIES[0][0]

Named = Mapping[str, Any]
"""Strategies that a configuration adds: by name, a table of `base` and the options that differ from it."""


def make(config: StrategyConfig, budget: Budget, run_seed: int) -> Strategy:
    """A new strategy.

    Args:
        config: the preset and the options that differ from it.
        budget: only `queries` binds a strategy; the engine watches money and tokens.
        run_seed: all that is random in a strategy follows from it.

    Raises:
        UserError: the preset or an option is unknown, or a value cannot be used.
    """
    preset = _preset(config.preset)
    if budget.queries < 0:
        raise UserError(f"Setting 'budget.queries' must be at least 0, not {budget.queries}")
    return preset.build(options_of(config), budget, run_seed)


def resolve(config: StrategyConfig, named: Named | None = None) -> StrategyConfig:
    """The same configuration with a preset and every option written out, for the journal.

    It survives a change of presets, and of the file that gave a name to it.

    Args:
        config: the preset or the name of a strategy in `named`, and the options that differ.
        named: what the configuration adds to the presets.

    Raises:
        UserError: as `make`, or a strategy in `named` is no table, has no base or is its own base.
    """
    based = _based(config, named or {}, ())
    return replace(based, options=encode(options_of(based)))


def options_of(config: StrategyConfig) -> Any:
    """The options record of a configuration whose preset is in the catalogue.

    Raises:
        UserError: as `make`.
    """
    return merge(_preset(config.preset).options, config.options, "strategy.")


def needs(config: StrategyConfig) -> Needs:
    """What a strategy asks of the engine beside its steps.

    Raises:
        UserError: as `make`.
    """
    options = options_of(config)
    if not isinstance(options, Options):
        return Needs()
    return Needs(options.writer is Writer.RECIPES, options.recipe_seeds)


def most_queries(config: StrategyConfig, budget: Budget) -> int:
    """The most queries that `make(config, budget, ...)` asks for: the budget, unless an option says otherwise.

    Raises:
        UserError: as `make`.
    """
    preset = _preset(config.preset)
    return preset.most_queries(options_of(config), budget)


def presets(named: Named | None = None) -> tuple[PresetInfo, ...]:
    """Every preset, family by family, the plain one first, then those of `named`.

    Raises:
        UserError: a strategy in `named` cannot be used.
    """
    return tuple(info(name, named) for name in (*_BY_NAME, *(named or {})))


def info(name: str, named: Named | None = None) -> PresetInfo:
    """What there is to say about one preset, or one strategy in `named`.

    Raises:
        UserError: there is none of that name, or it cannot be used.
    """
    config = _based(StrategyConfig(name), named or {}, ())
    preset = _preset(config.preset)
    plain = _plain_of(name, config.preset)
    options = _written(options_of(config))
    comparable = type(plain.options) is type(preset.options)
    shared = _written(plain.options) if comparable else ()
    return PresetInfo(
        name=name,
        summary=_summary(name, preset, named or {}),
        base=plain.name if comparable and plain.name != name else "",
        differences=tuple(pair for pair in options if pair not in shared),
        options=options,
        own_models=preset.own_models,
    )


def _preset(name: str) -> AnyPreset:
    if name not in _BY_NAME:
        raise UserError(f"Unknown strategy '{name}'{nearest(name, _BY_NAME)}")
    return _BY_NAME[name]


def _based(config: StrategyConfig, named: Named, seen: tuple[str, ...]) -> StrategyConfig:
    """The same strategy as a preset of the catalogue and options, still called what it was called."""
    name = config.preset
    if name not in named:
        _known(name, named)
        return config
    if name in _BY_NAME:
        raise UserError(f"The strategy [strategies.{name}] has the name of a preset: choose another name")
    if name in seen:
        raise UserError(f"The strategy [strategies.{name}] is its own base: base it on a preset, see pike strategies")
    table = named[name]
    if not isinstance(table, Mapping) or not isinstance(table.get("base"), str):
        raise UserError(f'The strategy [strategies.{name}] needs a base, for example base = "{_DEFAULT.name}"')
    own = {key: value for key, value in table.items() if key not in _NO_OPTIONS}
    based = _based(StrategyConfig(table["base"], own, config.name or name), named, (*seen, name))
    merge(_preset(based.preset).options, based.options, f"strategies.{name}.")
    return replace(based, options=overlaid(based.options, config.options))


_NO_OPTIONS = ("base", "summary")
"""Keys of a named strategy that are no options."""


def _known(name: str, named: Named) -> None:
    if name not in _BY_NAME:
        raise UserError(f"Unknown strategy '{name}'{nearest(name, {*_BY_NAME, *named})}")


def _plain_of(name: str, preset: str) -> AnyPreset:
    """What `name` is compared with: its base, the plain form of its family, or the default strategy."""
    if name not in _BY_NAME:
        return _BY_NAME[preset]
    return _PLAIN[name] if _PLAIN[name].name != name else _DEFAULT


def _summary(name: str, preset: AnyPreset, named: Named) -> str:
    if name not in named:
        return preset.summary
    return str(named[name].get("summary", f"{preset.name} with other options"))


def _written(options: Any) -> tuple[tuple[str, str], ...]:
    """Option and value pairs as a user would write them in TOML."""
    return tuple((name, str(value).lower()) for name, value in _flat(encode(options), ""))


def _flat(options: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{where}{name}.")
        else:
            yield f"{where}{name}", value
