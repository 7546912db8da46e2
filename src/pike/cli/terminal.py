"""Where the command line writes: results to stdout, everything else to stderr.

Knows the two consoles, plain help texts, and the rule of `--json`. Does not know any result.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.prompt import Confirm
from rich.segment import Segment
from rich.table import Table
from rich.text import Text, TextType
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
        self.params += _options_of(_in_every_command)
        for parameter in self.params:
            parameter.help = escape(getattr(parameter, "help", None) or "")  # type: ignore[attr-defined]


def _choose_color(wanted: bool) -> None:
    if wanted:
        os.environ["NO_COLOR"] = "1"


def _in_every_command(
    no_color: Annotated[
        bool, typer.Option("--no-color", callback=_choose_color, expose_value=False, help="Write without colours.")
    ] = False,
) -> None:
    """The options that no command has to know; consoles follow NO_COLOR, the help page's included."""


def _options_of(command: Callable[..., None]) -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return list(typer.main.get_command(app).params)


class _SafeConsole(Console):
    """A console on which no text can steer the terminal, whichever part of PIKE shows it."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


class Terminal:
    """What one command writes to.

    Args:
        as_json: write one JSON object to stdout and nothing else there.
        quiet: write nothing but results; nobody is asked anything.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        # Rich's own guess of 80 columns would cut tables in a log file; a person's terminal keeps its width.
        width = None if sys.stdout.isatty() else 120
        self._out = _SafeConsole(width=width, highlight=False, soft_wrap=False)
        width = None if sys.stderr.isatty() else 120
        self.notes = _SafeConsole(stderr=True, width=width, highlight=False, quiet=quiet)

    @property
    def can_ask(self) -> bool:
        """Whether there is a person to ask: both ends of the conversation are a terminal."""
        return sys.stdin.isatty() and self.notes.is_terminal and not self.notes.quiet

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
            raise UserError(f"This {what} would spend {cost} and nobody can be asked here: add --yes to agree")
        if not Confirm.ask(f"Start this {what}, which spends {cost}?", console=self.notes, default=False):
            raise typer.Exit(130)

    def show(self, *what: RenderableType, style: str = "") -> None:
        """A result for people; nothing under `--json`. Strings are shown as they are, without markup."""
        if not self.as_json:
            for one in what:
                self._out.print(_plain(one, style))

    def note(self, text: RenderableType, style: str = "") -> None:
        """Something to know that is not the result; goes to stderr. A string is shown as it is."""
        self.notes.print(_plain(text, style))

    def result(self, value: Any) -> None:
        """The result for programs: one JSON object on stdout under `--json`, nothing otherwise."""
        if self.as_json:
            sys.stdout.write(escaped(json.dumps(encode(value), ensure_ascii=False)) + "\n")
            sys.stdout.flush()


def _plain(what: RenderableType, style: str) -> RenderableType:
    return Text(what, style=style) if isinstance(what, str) else what


def table_of(
    words: Iterable[RenderableType],
    numbers: Iterable[RenderableType] = (),
    title: TextType | None = None,
    more_words: Iterable[RenderableType] = (),
) -> Table:
    """An empty table: columns of words, which are folded, then columns of numbers, then words again."""
    table = Table(title=title, title_justify="left")
    for name in words:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right")
    for name in more_words:
        table.add_column(name, overflow="fold")
    return table


def facts_table() -> Table:
    """An empty table of facts: a name and a value in each row."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    return table
