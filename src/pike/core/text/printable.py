"""Foreign text made safe to show: what a candidate, a task or a model wrote.

Knows which characters steer a terminal or turn the direction of text. Does not know where a text is
shown.
"""

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_STEERING = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_CONTROLS = re.compile(f"[{_STEERING}]")


def printable(text: str) -> str:
    """`text` with plain newlines, without terminal escapes, control or direction characters."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", _ESCAPES.sub("", plain))


def escaped(text: str) -> str:
    r"""One JSON document with the same characters written as `\uXXXX`; nothing is lost."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
