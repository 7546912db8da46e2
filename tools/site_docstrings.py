"""An extension of griffe for the site: examples in docstrings become code blocks.

Knows the marks of an interactive session. Does not know which object a docstring belongs to.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

SESSION = re.compile(r"(?m)^(?P<indent> *)>>> .*(?:\n(?P=indent)\S.*|\n(?P=indent) +\S.*)*")
"""An example up to the next blank line: prompts, their continuations and what they print."""


class FencedExamples(griffe.Extension):
    """Puts fences around examples, which Markdown would take for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object as soon as it is known."""
        if obj.docstring and ">>> " in obj.docstring.value and "```" not in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring with every example between fences."""
    return SESSION.sub(lambda found: f"{found['indent']}```pycon\n{found.group()}\n{found['indent']}```", text)
