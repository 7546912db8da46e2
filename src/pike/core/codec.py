"""Frozen records to JSON-ready values and back.

Knows dataclasses, enums, tuples, optionals, bytes and mappings of plain values, by their
annotations. Does not know files or versions. A record class with a class variable `kind` is
*tagged*: the kind is written with it, and tells the records of a union apart.
"""

import base64
import dataclasses
import math
import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")
Convert = Callable[[Any], Any]
TAG = "kind"
"""The key under which a tagged record says which one of its union it is."""


def encode(value: Any) -> Any:
    """A JSON-ready copy of `value`; non-finite floats become the strings `nan`, `inf`, `-inf`."""
    kind: Any = type(value)
    return _encoder(kind)(value)


def decode(kind: type[T], value: Any) -> T:
    """The record of type `kind` that `encode` turned into `value`.

    Raises:
        ValueError: a field is unknown, missing without a default, or of the wrong type.
    """
    hint: Any = kind
    return cast(T, _decoder(hint)(value))


def tagged_kinds(hint: Any) -> dict[str, type]:
    """The record classes of a union by their tags, empty for anything but tagged records."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else ()
    tagged = {_tag(kind): kind for kind in kinds}
    return {} if "" in tagged else tagged


def _tag(kind: Any) -> str:
    """The class variable `kind` of a record class, empty where it has none."""
    tag = getattr(kind, TAG, "") if dataclasses.is_dataclass(kind) else ""
    return tag if isinstance(tag, str) else ""


_UNIONS = (typing.Union, types.UnionType)


@cache
def _encoder(kind: Any) -> Convert:
    if dataclasses.is_dataclass(kind):
        names = tuple(field.name for field in dataclasses.fields(kind))
        tagged = {TAG: _tag(kind)} if _tag(kind) else {}
        return lambda value: tagged | {name: encode(getattr(value, name)) for name in names}
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, list | tuple):
        return lambda value: [encode(item) for item in value]
    if issubclass(kind, dict):
        return lambda value: {str(key): encode(item) for key, item in value.items()}
    if issubclass(kind, bytes):
        return lambda value: base64.b64encode(value).decode()
    if issubclass(kind, float):
        return lambda value: value if math.isfinite(value) else str(value)
    return lambda value: value


@cache
def _decoder(kind: Any) -> Convert:
    origin = typing.get_origin(kind)
    if kind is Any or origin in (dict, list):
        return lambda value: value
    if origin in _UNIONS:
        tagged = tagged_kinds(kind)
        return _tagged(tagged) if tagged else _union(typing.get_args(kind))
    if origin is tuple:
        return _tuple(typing.get_args(kind))
    if dataclasses.is_dataclass(kind):
        return _record(cast(type, kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    if kind is bytes:
        return lambda value: base64.b64decode(_plain(str)(value), validate=True)
    return _float if kind is float else _plain(kind)


def _enum(kind: type[Enum]) -> Convert:
    members = {member.value: member for member in kind}

    def decode_enum(value: Any) -> Any:
        try:
            return members[value]
        except (KeyError, TypeError):
            return kind(value)

    return decode_enum


def _float(value: Any) -> Any:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f"expected float, got {value!r}")


def _plain(kind: type) -> Convert:
    def decode_plain(value: Any) -> Any:
        if type(value) is kind or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
            return value
        raise ValueError(f"expected {kind.__name__}, got {value!r}")

    return decode_plain


def _union(kinds: tuple[Any, ...]) -> Convert:
    optional = type(None) in kinds
    others = [kind for kind in kinds if kind is not type(None)]

    def decode_union(value: Any) -> Any:
        if value is None and optional:
            return None
        for kind in others[:-1]:
            try:
                return _decoder(kind)(value)
            except ValueError:
                continue
        return _decoder(others[-1])(value)

    return decode_union


def _tagged(kinds: dict[str, type]) -> Convert:
    def decode_tagged(value: Any) -> Any:
        if not isinstance(value, dict) or value.get(TAG) not in kinds:
            raise ValueError(f"expected an object of kind {' or '.join(kinds)}, got {value!r}")
        fields = {name: item for name, item in value.items() if name != TAG}
        return _decoder(kinds[value[TAG]])(fields)

    return decode_tagged


def _tuple(kinds: tuple[Any, ...]) -> Convert:
    def decode_tuple(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise ValueError(f"expected a list, got {value!r}")
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            convert = _decoder(kinds[0])
            return tuple([convert(item) for item in value])
        if len(kinds) != len(value):
            raise ValueError(f"expected {len(kinds)} items, got {value!r}")
        return tuple([_decoder(kind)(item) for kind, item in zip(kinds, value, strict=True)])

    return decode_tuple


def _record(kind: type) -> Convert:
    # Filled at the first use, so that a record may hold others of its own type.
    fields: dict[str, Convert] = {}

    def decode_record(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"expected an object for {kind.__name__}, got {value!r}")
        if not fields:
            hints = typing.get_type_hints(kind)
            fields.update({field.name: _decoder(hints[field.name]) for field in dataclasses.fields(kind)})
        unknown = value.keys() - fields.keys()
        if unknown:
            raise ValueError(f"{kind.__name__} has no field {sorted(unknown)[0]!r}")
        try:
            return kind(**{name: fields[name](item) for name, item in value.items()})
        except TypeError as error:
            raise ValueError(f"{kind.__name__}: {error}") from error

    return decode_record
