"""Where the command line writes: results to stdout, everything else to stderr.

Knows the two consoles, plain help texts, and the rule of `--json`. Does not know any result.
"""

import json
import sys
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.prompt import Confirm
from rich.segment import Segment
from rich.table import Table
from typer.core import TyperCommand

from pike.core import figures
from pike.core.codec import encode
from pike.core.errors import UserError
from pike.core.text.printable import escaped, printable


class PlainHelp(TyperCommand):
    """A command whose help texts are plain text: brackets in them are no markup."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.help = escape(self.help or "")
        for parameter in self.params:
            parameter.help = escape(getattr(parameter, "help", None) or "")  # type: ignore[attr-defined]


class _SafeConsole(Console):
    """A console on which no text can steer the terminal, whichever part of PIKE shows it."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


class Terminal:
    """What one command writes to.

    Args:
        as_json: write one JSON object to stdout and nothing else there.
    """

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        # Rich's own guess of 80 columns would cut tables in a log file; a person's terminal keeps its width.
        width = None if sys.stdout.isatty() else 120
        self._out = _SafeConsole(width=width, highlight=False, soft_wrap=False)
        self.notes = _SafeConsole(stderr=True, width=None if sys.stderr.isatty() else 120, highlight=False)

    @property
    def can_ask(self) -> bool:
        """Whether there is a person to ask: both ends of the conversation are a terminal."""
        return sys.stdin.isatty() and self.notes.is_terminal

    def confirm_spending(self, what: str, usd: float | None) -> None:
        """Say what a run, campaign or suite may cost and ask, unless it costs nothing.

        Raises:
            UserError: it costs money and there is no terminal to ask on.
            typer.Exit: the answer is no.
        """
        if usd == 0:
            return
        cost = "an unknown amount" if usd is None else f"about {figures.usd(usd)}"
        if not self.can_ask:
            raise UserError(f"This {what} would spend {cost} and there is no terminal to ask on: add --yes to agree")
        if not Confirm.ask(f"Start this {what}, which spends {cost}?", console=self.notes, default=False):
            raise typer.Exit(130)

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
            sys.stdout.write(escaped(json.dumps(encode(value), ensure_ascii=False)) + "\n")
            sys.stdout.flush()


def facts_table() -> Table:
    """An empty table of facts: a name and a value in each row."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    return table
