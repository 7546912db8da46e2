import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pike.agents.reading.ideas import MOST_IDEAS, parse_ideas

LISTS = {
    "numbers": "Here are ideas:\n\n1. Fuse the ReLU\n2. Use channels last\n3) Fold the batch norm\n",
    "parentheses": "(1) Fuse the ReLU\n(2) Use channels last\n(3) Fold the batch norm",
    "dashes": "- Fuse the ReLU\n- Use channels last\n- Fold the batch norm",
    "stars": "* Fuse the ReLU\n* Use channels last\n* Fold the batch norm",
    "dots": "• Fuse the ReLU\n• Use channels last\n• Fold the batch norm",
    "bold": "**Fuse the ReLU**\nbecause.\n\n**Use channels last**: why\n\n**Fold the batch norm**",
    "bold numbers": "**1. Fuse the ReLU**\nbecause\n\n**2. Use channels last** why\n\n**3. Fold the batch norm**",
    "number then bold": "1. **Fuse the ReLU**: because\n2. **Use channels last**\n3. **Fold the batch norm**",
    "headings": "## Ideas\n\n### Fuse the ReLU\ntext\n- detail\n### Use channels last\n- detail\n### Fold the batch norm\n",
    "numbered headings": "# Plan\n### 1. Fuse the ReLU\n- a\n- b\n### 2. Use channels last\n1. x\n### 3. Fold the batch norm",
    "labels": "Idea 1: Fuse the ReLU\nIdea 2: Use channels last\nIdea 3: Fold the batch norm",
    "labelled headings": "## Idea 1: Fuse the ReLU\nwhy\n## Idea 2: Use channels last\nwhy\n## Idea 3: Fold the batch norm",
    "nested": "1. Fuse the ReLU\n   - one\n   - two\n     1. deep\n2. Use channels last\n   * more\n3. Fold the batch norm",
    "flat details": "1. Fuse the ReLU\n- one\n- two\n\n2. Use channels last\n- more\n\n3. Fold the batch norm",
    "windows": "1. Fuse the ReLU\r\n2. Use channels last\r\n3. Fold the batch norm\r\n",
    "indented": "  1. Fuse the ReLU\n  2. Use channels last\n  3. Fold the batch norm",
    "json": '["Fuse the ReLU", "Use channels last", "Fold the batch norm"]',
    "json in a fence": '```json\n{"ideas": [{"idea": "Fuse the ReLU"}, {"idea": "Use channels last"}, {"idea": "Fold the batch norm"}]}\n```',
    "code between": "1. Fuse the ReLU\n```python\n1. not an idea\n- nor this\n```\n2. Use channels last\n3. Fold the batch norm",
    "sections": "## Memory\n- Fuse the ReLU\n- Use channels last\n## Compute\n- Fold the batch norm\n",
}


@pytest.mark.parametrize("style", LISTS)
def test_every_style_of_list_gives_its_ideas_in_order(style):
    ideas = parse_ideas(LISTS[style])
    assert len(ideas) == 3
    for idea, start in zip(ideas, ("Fuse the ReLU", "Use channels last", "Fold the batch norm"), strict=True):
        assert idea.startswith(start)


def test_details_stay_with_their_idea():
    first, second, _ = parse_ideas(LISTS["nested"])
    assert "two" in first
    assert "more" not in first
    assert "more" in second
    assert "Compute" not in parse_ideas(LISTS["sections"])[1]


def test_more_than_ten_are_cut_and_repetitions_dropped():
    assert len(parse_ideas("\n".join(f"{n}. idea number {n}" for n in range(1, 31)))) == MOST_IDEAS
    assert parse_ideas("- fuse\n- Fuse\n- **fuse**\n- tile") == ("fuse", "tile")


def test_a_version_number_or_speed_is_no_list():
    assert parse_ideas("The model takes\n1.25 ms per call and\n2.50 ms with autograd.") == ()


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n ",
        "I would just fuse everything.",
        "```python\n- x\n1. y\n```",
        "{",
        "[]",
        "[1, 2]",
        "1.\n2.\n3.",
        "- \n- --\n",
        '{"a": 1}',
    ],
)
def test_an_unusable_answer_has_no_ideas(answer):
    assert parse_ideas(answer) == ()


@settings(max_examples=200)
@given(st.text(alphabet='1.)-*#` \n\ta(bI[]{}":,', max_size=200))
def test_no_answer_raises(answer):
    ideas = parse_ideas(answer)
    assert len(ideas) <= MOST_IDEAS
    assert all(idea.strip() == idea != "" for idea in ideas)


def test_a_huge_answer_is_read_quickly():
    import time

    started = time.monotonic()
    assert len(parse_ideas("- idea " + "x" * 100 + "\n" * 3 + "* **a** " * 50_000)) >= 1
    parse_ideas("#" * 100_000 + "\n" + "**" * 100_000 + "\n" + "1. a\n" * 20_000)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "answer",
    [
        '["fuse the layers", "", null, "None", "N/A"]',
        '[{"title": "fuse the layers", "detail": null}, {"title": "", "detail": ""}, {"title": null}]',
        "1. fuse the layers\n2.\n3. None\n4. **Idea 4:**\n",
    ],
)
def test_empty_ideas_are_dropped(answer):
    assert parse_ideas(answer) == ("fuse the layers",)
