"""Keeping keys out of everything that is shown or stored.

Knows how providers echo a key back: whole, or with its middle starred out. Does not know where
messages are printed: each one with text from outside passes through `redact`.
"""

import os
import re

from pike.llm.vendors import key_variables

_MASKED = re.compile(r"[\w-]*\*{3,}[\w-]*")
_MESSAGE_CHARACTERS = 400


def redact(text: str) -> str:
    """`text` on one line, cut to 400 characters, without any key that is set in the environment."""
    for variable in key_variables():
        key = os.environ.get(variable, "").strip()
        if len(key) >= 4:
            text = text.replace(key, f"[{variable}]")
    line = " ".join(_MASKED.sub("[key]", text).split())
    return line if len(line) <= _MESSAGE_CHARACTERS else line[: _MESSAGE_CHARACTERS - 1] + "…"
