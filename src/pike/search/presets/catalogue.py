"""Every strategy by name: the presets, and those that a configuration adds.

Knows the list of families and how a configuration picks one. Does not know how any of them
searches. A new family is a tuple of presets and one entry in `_FAMILIES`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pike.core.codec import encode
from pike.core.errors import UserError
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.settings.merging import merge, nearest
from pike.core.step import Strategy
from pike.search.options.prompting import Wording
from pike.search.options.search import SearchOptions
from pike.search.presets import own, pike_o, published
from pike.search.presets.preset import AnyPreset, Needs, PresetInfo
from pike.search.presets.upgrade import MOVED, upgraded

_FAMILIES: tuple[tuple[AnyPreset, ...], ...] = (
    published.PIKE_B,
    pike_o.PIKE_O,
    published.BEST_OF_N,
    published.REFLEXION,
    published.METR,
    published.RECIPES,
    published.STARK,
    own.PIKE_X,
    own.AGENT,
)
_BY_NAME = {preset.name: preset for family in _FAMILIES for preset in family}
_PLAIN = {preset.name: family[0] for family in _FAMILIES for preset in family}
_DEFAULT = _FAMILIES[0][0]

Named = Mapping[str, Any]
"""Strategies that a configuration adds: by name, a table of `base` and other options."""


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

    It survives a change of presets, and of the file that named it. Options of an older journal are
    written in today's form.

    Args:
        config: the preset or the name of a strategy in `named`, and the options that differ.
        named: the strategies that the configuration adds to the presets.

    Raises:
        UserError: as `make`, or a strategy in `named` is no table, has no base or is its own base.
    """
    chosen = _chosen(config.preset, named or {}, ())
    options = _merged(chosen.options, config.options, "strategy.")
    name = config.preset if config.preset != chosen.preset.name else ""
    return StrategyConfig(chosen.preset.name, encode(options), config.name or name)


def options_of(config: StrategyConfig) -> Any:
    """The options record of a configuration whose preset is in the catalogue.

    Raises:
        UserError: as `make`.
    """
    return _merged(_preset(config.preset).options, config.options, "strategy.")


def needs(config: StrategyConfig) -> Needs:
    """The needs of a strategy beside answers to its steps.

    Raises:
        UserError: as `make`.
    """
    options = options_of(config)
    if not isinstance(options, SearchOptions):
        return Needs()
    return Needs(
        recipes_write=options.free,
        recipe_seeds=options.recipe_seeds,
        profile=options.profile,
        daring=options.wording is Wording.DARING,
        repairs=options.repairs_at_once + options.repairs_later,
    )


def most_queries(config: StrategyConfig, budget: Budget) -> int:
    """The most queries that the strategy asks for: the budget, unless an option says otherwise.

    Raises:
        UserError: as `make`.
    """
    return _preset(config.preset).most_queries(options_of(config), budget)


def presets(named: Named | None = None) -> tuple[PresetInfo, ...]:
    """Every preset, family by family, the plain one first, then those of `named`.

    Raises:
        UserError: a strategy in `named` cannot be used.
    """
    return tuple(info(name, named) for name in (*_BY_NAME, *(named or {})))


def info(name: str, named: Named | None = None) -> PresetInfo:
    """The description of one preset, or of one strategy in `named`.

    Raises:
        UserError: there is none of that name, or it cannot be used.
    """
    chosen = _chosen(name, named or {}, ())
    preset, plain = chosen.preset, _plain_of(name, chosen.preset.name)
    comparable = type(plain.options) is type(preset.options)
    return PresetInfo(
        name=name,
        summary=chosen.summary,
        base=plain.name if comparable and plain.name != name else "",
        differences=tuple(_differences(chosen.options, plain.options) if comparable else ()),
        options=tuple(_written(chosen.options)),
        own_models=preset.own_models,
    )


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A strategy that a name stands for: a preset with options that may differ from it."""

    preset: AnyPreset
    options: Any
    summary: str


def _chosen(name: str, named: Named, seen: tuple[str, ...]) -> _Chosen:
    if name not in named:
        preset = _preset(name, named)
        return _Chosen(preset, preset.options, preset.summary)
    if name in _BY_NAME:
        raise UserError(f"The strategy [strategies.{name}] has the name of a preset: choose another name")
    if name in seen:
        raise UserError(f"The strategy [strategies.{name}] is its own base: base it on a preset, see pike strategies")
    table = named[name]
    if not isinstance(table, Mapping) or not isinstance(table.get("base"), str):
        raise UserError(f'The strategy [strategies.{name}] needs a base, for example base = "{_DEFAULT.name}"')
    base = _chosen(table["base"], named, (*seen, name))
    own = {key: value for key, value in table.items() if key not in ("base", "summary")}
    summary = str(table.get("summary", f"{base.preset.name} with other options"))
    return _Chosen(base.preset, _merged(base.options, own, f"strategies.{name}."), summary)


def _merged(options: Any, layer: Mapping[str, Any], where: str) -> Any:
    """Options with a layer of settings over them; the error for a renamed dial names its place."""
    layer = upgraded(layer)
    known = {field.name for field in fields(options)}
    for key in layer:
        if key in MOVED and key not in known:
            raise UserError(f"Unknown setting '{where}{key}'; it is '{where}{MOVED[key]}' now")
    return merge(options, layer, where)


def _preset(name: str, named: Named | None = None) -> AnyPreset:
    if name not in _BY_NAME:
        raise UserError(f"Unknown strategy '{name}'{nearest(name, {*_BY_NAME, *(named or {})})}")
    return _BY_NAME[name]


def _plain_of(name: str, preset: str) -> AnyPreset:
    """The preset to compare with: the base, the plain form of the family, or the default."""
    if name not in _BY_NAME:
        return _BY_NAME[preset]
    return _PLAIN[name] if _PLAIN[name].name != name else _DEFAULT


def _written(options: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Option and value pairs as a user writes them; a part alone stands for its kind."""
    for name, value in _values(options):
        yield f"{path}{name}", _text(value)
        if is_dataclass(value):
            yield from _written(value, f"{path}{name}.")


def _differences(options: Any, plain: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The pairs that differ from `plain`; a part of another kind is compared with its defaults."""
    for name, value in _values(options):
        other, kind = getattr(plain, name), type(value)
        same_kind = kind is type(other)
        if not same_kind or (value != other and not is_dataclass(value)):
            yield f"{path}{name}", _text(value)
        if is_dataclass(value):
            yield from _differences(value, other if same_kind else kind(), f"{path}{name}.")


def _values(options: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(options, field.name)) for field in fields(options)]


def _text(value: Any) -> str:
    return str(value.kind if is_dataclass(value) else value).lower()  # type: ignore[union-attr]
