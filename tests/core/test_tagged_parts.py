"""Tagged unions in records: how they are written, read and merged from layers of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from pike.core.codec import decode, encode
from pike.core.errors import UserError
from pike.core.settings.merging import merge, overlaid


@dataclass(frozen=True, slots=True)
class Circle:
    kind: ClassVar[str] = "circle"
    radius: float = 1.0


@dataclass(frozen=True, slots=True)
class Box:
    kind: ClassVar[str] = "box"
    width: float = 2.0
    height: float = 3.0


@dataclass(frozen=True, slots=True)
class Drawing:
    shape: Circle | Box = Circle()
    label: str = ""


def test_a_tagged_record_is_written_with_its_kind_and_read_by_it() -> None:
    for drawing in (Drawing(), Drawing(Box(1.0, 1.0))):
        assert decode(Drawing, encode(drawing)) == drawing
    assert encode(Drawing())["shape"] == {"kind": "circle", "radius": 1.0}
    with pytest.raises(ValueError, match="of kind circle or box"):
        decode(Drawing, {"shape": {"kind": "line"}})


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ({"radius": 3.0}, Circle(3.0)),
        ({"kind": "circle"}, Circle(5.0)),
        ({"kind": "box"}, Box()),
        ("box", Box()),
        ({"kind": "box", "height": 1.0}, Box(height=1.0)),
    ],
)
def test_dials_keep_the_kind_and_another_kind_starts_from_its_defaults(given: Any, shape: Circle | Box) -> None:
    assert merge(Drawing(Circle(5.0)), {"shape": given}).shape == shape


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shape": {"width": 1}}, "Setting 'shape.width' is a dial of 'box', not of 'circle'"),
        ({"shape": {"kind": "line"}}, "Setting 'shape' cannot be 'line': choose 'circle' or 'box'"),
        ({"shape": {"radus": 1}}, "Unknown setting 'shape.radus'; did you mean 'radius'?"),
        ({"shape": 3}, "Setting 'shape' is a kind or a table of settings, not 3"),
        ({"radius": 1}, "Unknown setting 'radius'; did you mean 'shape.radius'?"),
    ],
)
def test_a_dial_that_nothing_would_use_is_an_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        merge(Drawing(), given)
    assert str(caught.value) == message


def test_a_layer_that_names_another_kind_replaces_the_table_below() -> None:
    below = {"shape": {"kind": "box", "width": 1}}
    assert overlaid(below, {"shape": {"kind": "circle"}}) == {"shape": {"kind": "circle"}}
    assert overlaid(below, {"shape": {"height": 2}}) == {"shape": {"kind": "box", "width": 1, "height": 2}}
    assert overlaid({"shape": "box"}, {"shape": {"height": 2}}) == {"shape": {"kind": "box", "height": 2}}
    assert overlaid(below, {"shape": "box"}) == below
