"""Prompts as files: a change of words is a change that can be read. PIKE_UPDATE_GOLDEN=1 writes them anew."""

import os
from pathlib import Path

import pytest
from agents_material import golden_contexts

from pike.agents.prompts.prompting import render

GOLDEN = Path(__file__).parent / "golden"
CONTEXTS = golden_contexts()


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_prompt_reads_as_it_was_reviewed(name):
    prompt = render(CONTEXTS[name])
    text = f"<!-- system prompt -->\n\n{prompt.system}\n\n<!-- prompt -->\n\n{prompt.user}\n"
    path = GOLDEN / f"{name}.md"
    if os.environ.get("PIKE_UPDATE_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()


def test_every_golden_file_belongs_to_a_prompt():
    assert {path.stem for path in GOLDEN.glob("*.md")} == set(CONTEXTS)
