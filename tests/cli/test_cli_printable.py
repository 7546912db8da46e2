"""Nothing that a candidate, a task or a model wrote steers the terminal on which it is shown."""

import json

import pytest
from rich.table import Table
from rich.text import Text

from pike.cli import main
from pike.cli.display.verdict import show_verdict
from pike.cli.terminal import Terminal
from pike.core.codec import decode, encode
from pike.core.text.printable import escaped, printable
from pike.core.verdict.evaluation import Evaluation, Status

DIRTY = "\x1b[2J\x1b]0;title\x07\x9b1mgo\x00od\u202edilav\u2066 \u200f\rdone\x7f\ufeff\ud800"
CLEAN = "1mgooddilav \ndone"


def odd(text: str) -> list[str]:
    return [character for character in text if not character.isprintable() and character != "\n"]


def test_a_verdict_is_printable_also_if_an_old_journal_holds_it_raw():
    found = Evaluation(Status.RUNTIME_ERROR, DIRTY, log=f"--- stderr ---\n{DIRTY}")
    assert found.reason == CLEAN and found.log == f"--- stderr ---\n{CLEAN}"
    stored = encode(Evaluation(Status.RUNTIME_ERROR))
    stored["reason"] = DIRTY
    assert decode(Evaluation, stored).reason == CLEAN


def test_a_terminal_shows_no_foreign_text_as_it_is(capsys: pytest.CaptureFixture[str]):
    terminal, table = Terminal(), Table(title=Text(DIRTY))
    table.add_column("x")
    table.add_row(Text(DIRTY))
    terminal.show(table, Text(DIRTY), Text(f"see {DIRTY}", style="bold"))
    terminal.note(Text(DIRTY))
    show_verdict(terminal, Evaluation(Status.RUNTIME_ERROR, DIRTY, log=DIRTY))
    shown = capsys.readouterr()
    assert "gooddilav" in shown.out and "gooddilav" in shown.err
    assert not odd(shown.out + shown.err)


@pytest.mark.parametrize("argument", ["report", "--\x1b[2J\u202ebogus"])
def test_an_error_message_is_printable(argument: str, capsys: pytest.CaptureFixture[str]):
    assert main.run([argument, "nowhere\x1b[2J\u202e"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("pike: ") and not odd(shown)


def test_results_for_programs_lose_nothing_and_hold_nothing_that_steers(capsys: pytest.CaptureFixture[str]):
    Terminal(as_json=True).result({"source": "a\x9b\u202e→\n"})
    shown = capsys.readouterr().out
    assert not odd(shown) and "→" in shown
    assert json.loads(shown) == {"source": "a\x9b\u202e→\n"}


def test_plain_text_stays_as_it_is():
    text = "größer\tals → 3×\n\n  日本語 e\u0301"
    assert printable(text) == text and escaped(text) == text
