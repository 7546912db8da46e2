"""Keeping keys out of everything that is shown or stored.

Knows which environment variables hold keys and how providers echo a key back (whole, or with its middle starred
out). Does not know who prints what: every message that has text from outside passes through `redact`.
"""

from __future__ import annotations

import os
import re

KEY_VARIABLES = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "OPENROUTER_API_KEY",
)
"""The environment variables that may hold a key for one of our providers."""

_MASKED = re.compile(r"[\w-]*\*{3,}[\w-]*")
_MESSAGE_CHARACTERS = 400


def redact(text: str) -> str:
    """`text` on one line, cut to 400 characters, without any key that is set in the environment."""
    for variable in KEY_VARIABLES:
        key = os.environ.get(variable, "").strip()
        if len(key) >= 4:
            text = text.replace(key, f"[{variable}]")
    line = " ".join(_MASKED.sub("[key]", text).split())
    return line if len(line) <= _MESSAGE_CHARACTERS else line[: _MESSAGE_CHARACTERS - 1] + "…"
