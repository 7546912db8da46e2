"""Every strategy there is, by name.

Knows the list of families and how a configuration picks one. Does not know what any of them does. A new family is one
file that ends in a tuple of presets, and one entry in `_FAMILIES`.
"""

from __future__ import annotations

from typing import Any

from pike.core.budget import Budget
from pike.core.codec import encode
from pike.core.config import StrategyConfig, merge, nearest
from pike.core.errors import UserError
from pike.core.step import Strategy
from pike.search import branching
from pike.search.preset import AnyPreset, PresetInfo

_FAMILIES: tuple[tuple[AnyPreset, ...], ...] = (branching.PRESETS,)
_BY_NAME = {preset.name: preset for family in _FAMILIES for preset in family}
_PLAIN = {preset.name: family[0] for family in _FAMILIES for preset in family}


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
    return preset.build(_options(preset, config), budget, run_seed)


def resolve(config: StrategyConfig) -> StrategyConfig:
    """The same configuration with every option written out, for the journal: it survives a change of presets.

    Raises:
        UserError: as `make`.
    """
    preset = _preset(config.preset)
    return StrategyConfig(preset.name, encode(_options(preset, config)))


def most_queries(config: StrategyConfig, budget: Budget) -> int:
    """The most queries that `make(config, budget, ...)` asks for: the budget, unless an option says otherwise.

    Raises:
        UserError: as `make`.
    """
    preset = _preset(config.preset)
    return preset.most_queries(_options(preset, config), budget)


def presets() -> tuple[PresetInfo, ...]:
    """Every preset, family by family, the plain one first."""
    return tuple(info(name) for name in _BY_NAME)


def info(name: str) -> PresetInfo:
    """What there is to say about one preset.

    Raises:
        UserError: there is none of that name.
    """
    preset = _preset(name)
    options, plain = _written(preset.options), _written(_PLAIN[name].options)
    return PresetInfo(
        name=name,
        summary=preset.summary,
        differences=tuple(pair for pair in options if pair not in plain),
        options=options,
        own_models=preset.own_models,
    )


def _preset(name: str) -> AnyPreset:
    if name not in _BY_NAME:
        raise UserError(f"Unknown strategy '{name}'{nearest(name, _BY_NAME)}")
    return _BY_NAME[name]


def _options(preset: AnyPreset, config: StrategyConfig) -> Any:
    return merge(preset.options, config.options, "strategy.")


def _written(options: Any) -> tuple[tuple[str, str], ...]:
    """Option and value pairs as a user would write them in TOML."""
    return tuple((name, str(value).lower()) for name, value in encode(options).items())
