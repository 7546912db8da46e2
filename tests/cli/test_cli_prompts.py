"""`pike prompts`: what each role is asked."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from pike.agents import prompts_version
from pike.cli.main import app
from pike.core.step import Role


def test_every_role_is_printed_in_the_words_that_a_run_would_use(tmp_path: Path) -> None:
    (tmp_path / "system_iba.md").write_text("Think first.")
    words = ("prompts", "demo/gpt_block:small", "--device", "cpu", "--strategy", "pike-x", "--json")
    found = CliRunner().invoke(app, [*words, "--set", f"prompt.folder={tmp_path}"])
    assert found.exit_code == 0, found.output
    shown = json.loads(found.stdout)
    prompts = shown["prompts"]
    assert set(prompts) == {role.value for role in Role}
    assert prompts["iba"]["system"] == "Think first."
    assert "How bold to be" in prompts["coa"]["user"]
    assert shown["version"] == prompts_version(str(tmp_path))
