"""Layers of settings, put over the configuration tree.

Knows how mappings (TOML tables, `a.b=c` settings) change a frozen record. An unknown key is a
`UserError` that offers the nearest name. Does not read files, and does not know the options of a
strategy: `search` checks the keys of `strategy` other than `preset`.
"""

import dataclasses
import difflib
import functools
import tomllib
import typing
from typing import Any, TypeVar

from pike.core.codec import TAG, decode, tagged_kinds
from pike.core.errors import UserError
from pike.core.settings.bounds import check
from pike.core.settings.config import StrategyConfig

T = TypeVar("T")
_hints: typing.Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """A hint such as `; did you mean 'budget'?`, or the list of known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(names)}"


def merge(base: T, layer: typing.Mapping[str, Any], where: str = "") -> T:
    """`base` with the values of a nested mapping put over it.

    Args:
        base: a frozen record of the tree.
        layer: nested mapping, for example a parsed TOML file.
        where: dotted path of `base`, for messages.

    Raises:
        UserError: a key is unknown, or a value has the wrong type or is out of its bounds.
    """
    kind = type(base)
    known = {f.name for f in dataclasses.fields(base)}  # type: ignore[arg-type]
    changes: dict[str, Any] = {}
    for key, value in layer.items():
        path = f"{where}{key}"
        if kind is StrategyConfig and key not in known:
            given = changes.get("options", base.options)  # type: ignore[attr-defined]
            changes["options"] = overlaid(given or {}, {key: value})
            continue
        if key not in known:
            raise UserError(f"Unknown setting '{path}'{_known(base, key)}")
        changes[key] = _merged_value(base, key, value, path)
    merged = dataclasses.replace(base, **changes)  # type: ignore[type-var]
    for key, value in changes.items():
        check(f"{where}{key}", value)
    return merged


def _merged_value(base: Any, key: str, value: Any, path: str) -> Any:
    current = getattr(base, key)
    hint = _hints(type(base))[key]
    kinds = tagged_kinds(hint)
    if kinds:
        return _merged_part(current, kinds, value, path)
    if dataclasses.is_dataclass(current) and not isinstance(current, type):
        if not isinstance(value, typing.Mapping):
            raise UserError(f"Setting '{path}' is a table of settings, not {value!r}")
        return merge(current, value, f"{path}.")
    if isinstance(current, dict) and isinstance(value, typing.Mapping):
        return overlaid(current, value)
    try:
        return decode(hint, value)
    except (ValueError, OverflowError) as error:
        raise UserError(f"Setting '{path}' cannot be {value!r}: {error}") from error


def _merged_part(current: Any, kinds: typing.Mapping[str, type], value: Any, path: str) -> Any:
    """One of several tagged records; a kind other than `current`'s starts from its defaults."""
    if not isinstance(value, str | typing.Mapping):
        raise UserError(f"Setting '{path}' is a kind or a table of settings, not {value!r}")
    table = {TAG: value} if isinstance(value, str) else value
    kind = str(table.get(TAG, current.kind))
    if kind not in kinds:
        choices = " or ".join(repr(name) for name in kinds)
        raise UserError(f"Setting '{path}' cannot be {kind!r}: choose {choices}")
    dials = {name: item for name, item in table.items() if name != TAG}
    for name in dials:
        owners = [other for other, record in kinds.items() if name in _names(record)]
        if owners and kind not in owners:
            raise UserError(f"Setting '{path}.{name}' is a dial of {' and '.join(map(repr, owners))}, not of {kind!r}")
    return merge(current if kind == current.kind else kinds[kind](), dials, f"{path}.")


def _known(base: Any, key: str) -> str:
    """A hint at the intended setting: one of this record, or of a table below it."""
    hints = typing.get_type_hints(type(base))
    below = [name for name, hint in hints.items() if any(key in _names(kind) for kind in _tables(hint))]
    return nearest(key, _names(type(base))) if len(below) != 1 else f"; did you mean '{below[0]}.{key}'?"


def _tables(hint: Any) -> list[Any]:
    return [kind for kind in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(kind)]


def _names(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def overlaid(base: typing.Mapping[str, Any], layer: typing.Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables with those of `layer` put over them; neither is changed.

    A table with another `kind` than the one below replaces it. A word stands for a table of that
    kind.
    """
    merged = dict(base)
    for key, value in layer.items():
        below = merged.get(key)
        if isinstance(below, str) and isinstance(value, typing.Mapping):
            below = {TAG: below}
        if isinstance(below, typing.Mapping) and TAG in below and isinstance(value, str):
            value = {TAG: value}
        if isinstance(below, typing.Mapping) and isinstance(value, typing.Mapping):
            same = below.get(TAG) == value.get(TAG, below.get(TAG))
            value = overlaid(below, value) if same or TAG not in below else value
        merged[key] = value
    return merged


def parse_setting(text: str) -> dict[str, Any]:
    """One `a.b=c` setting as a nested mapping; the value is read as TOML, else as a string.

    Raises:
        UserError: there is no `=`.
    """
    path, found, raw = text.partition("=")
    if not found or not path.strip():
        raise UserError(f"Setting '{text}' must look like a.b=value, for example budget.queries=50")
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw
    for key in reversed(path.strip().split(".")):
        value = {key: value}
    return typing.cast("dict[str, Any]", value)
