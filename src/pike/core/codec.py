"""Frozen records to JSON-ready values and back.

Knows dataclasses, enums, tuples, optionals and mappings of plain values, by their annotations. Does not know
files or versions; a field that is missing takes its default, a field that is unknown is an error.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")


def encode(value: Any) -> Any:
    """A JSON-ready copy of `value`; non-finite floats become the strings `nan`, `inf`, `-inf`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def decode(kind: type[T], value: Any) -> T:
    """The record of type `kind` that `encode` turned into `value`.

    Raises:
        ValueError: a field is unknown, missing without a default, or of the wrong type.
    """
    return cast(T, _decode(kind, value))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(kind), value)
    if origin is tuple:
        return _decode_tuple(typing.get_args(kind), value)
    if origin in (dict, list):
        return value
    if dataclasses.is_dataclass(kind):
        return _decode_record(cast(type, kind), value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if kind is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise ValueError(f"expected {kind.__name__}, got {value!r}")


def _decode_union(kinds: tuple[Any, ...], value: Any) -> Any:
    if value is None and type(None) in kinds:
        return None
    others = [kind for kind in kinds if kind is not type(None)]
    for kind in others[:-1]:
        try:
            return _decode(kind, value)
        except ValueError:
            continue
    return _decode(others[-1], value)


def _decode_tuple(kinds: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected a list, got {value!r}")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_decode(kinds[0], item) for item in value)
    if len(kinds) != len(value):
        raise ValueError(f"expected {len(kinds)} items, got {value!r}")
    return tuple(_decode(kind, item) for kind, item in zip(kinds, value, strict=True))


def _decode_record(kind: type, value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object for {kind.__name__}, got {value!r}")
    hints = _hints(kind)
    unknown = set(value) - {f.name for f in dataclasses.fields(kind)}
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {sorted(unknown)[0]!r}")
    try:
        return kind(**{name: _decode(hints[name], item) for name, item in value.items()})
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from error
