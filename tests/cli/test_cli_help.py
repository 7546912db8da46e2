"""The help of every command: it renders, and no word of it is lost."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing

import pytest
import typer

from pike.cli import main
from pike.cli.main import app

COMMANDS = {(info.name or info.callback.__name__): info.callback for info in app.registered_commands if info.callback}


def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setenv("COLUMNS", "1000")
    assert main.run([*arguments, "--help"]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_word_of_a_commands_help_is_shown(name: str, capsys, monkeypatch) -> None:
    text = shown(capsys, monkeypatch, name)
    callback = COMMANDS[name]
    assert " ".join((inspect.getdoc(callback) or "no docstring").split()) in text
    for hint in typing.get_type_hints(callback, include_extras=True).values():
        for info in getattr(hint, "__metadata__", ()):
            if isinstance(info, typer.models.ParameterInfo):
                assert info.help is None or info.help in text
                assert "[[" not in (info.metavar or "")


def test_the_first_help_lists_every_command_with_its_sentence(capsys, monkeypatch) -> None:
    text = shown(capsys, monkeypatch)
    for name, callback in COMMANDS.items():
        assert f"{name} {(inspect.getdoc(callback) or '').splitlines()[0]}" in text


def test_a_bracket_is_no_markup(capsys, monkeypatch) -> None:
    assert "hf:OWNER/NAME[/SPLIT]" in shown(capsys, monkeypatch, "tasks")
    assert "[campaign]" in shown(capsys, monkeypatch, "campaign")


def test_the_command_line_starts_without_torch() -> None:
    """PyTorch and its compilers take seconds to import, and a mistyped option should not wait for them."""
    loaded = (
        "import sys, pike.cli.main; print([name for name in ('torch', 'pydantic_ai', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
