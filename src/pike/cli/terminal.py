"""Where the command line writes: results to stdout, everything else to stderr.

Knows the two consoles and the rule of `--json`: exactly one object on stdout. Does not know what is written.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console, RenderableType

from pike.core.codec import encode


class Terminal:
    """What one command writes to.

    Args:
        as_json: write one JSON object to stdout and nothing else there.
    """

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        # Rich's own guess of 80 columns would cut tables in a log file; a person's terminal keeps its width.
        width = None if sys.stdout.isatty() else 120
        self._out = Console(width=width, highlight=False, soft_wrap=False)
        self.notes = Console(stderr=True, width=None if sys.stderr.isatty() else 120, highlight=False)

    @property
    def can_ask(self) -> bool:
        """Whether there is a person to ask: both ends of the conversation are a terminal."""
        return sys.stdin.isatty() and self.notes.is_terminal

    def show(self, *what: RenderableType) -> None:
        """A result for people; nothing under `--json`."""
        if not self.as_json:
            for one in what:
                self._out.print(one)

    def note(self, text: RenderableType) -> None:
        """Something to know that is not the result; goes to stderr."""
        self.notes.print(text)

    def result(self, value: Any) -> None:
        """The result for programs: one JSON object on stdout under `--json`, nothing otherwise."""
        if self.as_json:
            sys.stdout.write(json.dumps(encode(value), ensure_ascii=False) + "\n")
            sys.stdout.flush()
