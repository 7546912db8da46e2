"""The pages of the site that are made while it is built."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import typer

from pike.cli.main import app

pytest.importorskip("mkdocs", reason="the site needs pike-torch[docs]")

TOOLS = Path(__file__).resolve().parent.parent / "tools"


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_command_line_has_every_command_with_its_defaults() -> None:
    root = typer.main.get_command(app)
    page = tool("site_pages").command_line(root)
    for name in root.commands:
        assert f"## pike {name}\n" in page
    assert "### pike gallery verify\n" in page and "| `--recipes` |" in page
    assert "| `--concurrency` | Steps in flight at once. | `20` |" in page
    assert "[b]" not in page


def test_examples_in_docstrings_become_code_blocks() -> None:
    text = "One sentence.\n\n>>> [x for x in ()]\n[]\n\nArgs:\n    x: none."
    fenced = tool("site_docstrings").fenced(text)
    assert fenced == "One sentence.\n\n```pycon\n>>> [x for x in ()]\n[]\n```\n\nArgs:\n    x: none."
