import json
import time

import pytest

from pike.core.errors import ProviderError, UserError
from pike.core.query import Answer, Finish
from pike.core.settings.config import LlmConfig
from pike.core.step import Role
from pike.llm import connect
from pike.llm.given import ReplayClient

SCRIPT = """
model = "actor"

[[answer]]
role = "iba"
text = "1. fuse"

[[answer]]
role = "coa"
text = "first"

[[answer]]
role = "coa"
text = "second"

[[answer]]
role = "coa"
contains = "BatchNorm"
text = "folded"

[[answer]]
role = "coa"
regex = "conv\\\\dd"
text = "convolved"

[[answer]]
step = 8
text = "just this once"

[[answer]]
role = "efa"
file = "fix.py"
finish = "length"
"""


@pytest.fixture
def script(tmp_path):
    """A function that connects to a script with this text."""

    def make(text, name="play.toml"):
        (tmp_path / "fix.py").write_text("class ModelNew: ...\n")
        (tmp_path / name).write_text(text)
        return connect(f"scripted:{tmp_path / name}", LlmConfig())

    return make


async def say(client, query):
    return (await client.complete(query)).text


async def test_answers_go_by_role_and_step_and_prompt(script, ask):
    client = script(SCRIPT)
    assert await say(client, ask(0, Role.BRAINSTORM)) == "1. fuse"
    assert [await say(client, ask(n)) for n in range(4)] == ["first", "second", "first", "second"]
    assert await say(client, ask(0, prompt="a BatchNorm2d layer")) == "folded"
    assert await say(client, ask(5, prompt="uses conv2d")) == "convolved"
    assert await say(client, ask(8)) == "just this once"
    fixed = await client.complete(ask(2, Role.FIX))
    assert fixed.text == "```python\nclass ModelNew: ...\n```\n"
    assert fixed.finish is Finish.LENGTH
    assert fixed.model == "actor"


async def test_every_role_can_be_scripted(script, ask):
    text = "".join(f"[[answer]]\nrole = '{role.value}'\ntext = 'as {role.value}'\n" for role in Role)
    client = script(text)
    for role in Role:
        assert await say(client, ask(3, role)) == f"as {role.value}"


async def test_an_answer_can_be_made_from_the_prompt(script, ask):
    client = script(r"""
    [[answer]]
    role = "plan"
    take = "<(.*?)>"
    replace = [["^x = (\\d)$", "y = \\1"], ["z", ""]]
    text = "taken: {taken}."
    """)
    assert await say(client, ask(0, Role.PLAN, prompt="<not this> but <a\nx = 7\nz>")) == "taken: a\ny = 7\n."
    assert await say(client, ask(0, Role.PLAN, prompt="nothing to take")) == "taken: ."


async def test_the_answer_does_not_depend_on_what_was_asked_before(script, ask):
    once, again = script(SCRIPT), script(SCRIPT)
    forwards = {n: await say(once, ask(n)) for n in range(12)}
    backwards = {n: await say(again, ask(n)) for n in reversed(range(12))}
    assert forwards == backwards


async def test_tokens_and_money_are_as_scripted(script, ask):
    text = """
    input_usd_per_mtok = 2.0
    output_usd_per_mtok = 10.0
    [[answer]]
    text = "x"
    input_tokens = 1000
    output_tokens = 500
    thinking_tokens = 400
    """
    client = script(text)
    answer = await client.complete(ask())
    assert (answer.input_tokens, answer.output_tokens, answer.thinking_tokens) == (1000, 500, 400)
    assert answer.usd == pytest.approx(0.007)
    assert client.price().usd(1000, 500) == pytest.approx(0.007)


async def test_money_can_be_stated_unknown_or_nothing(script, ask):
    stated = script('[[answer]]\ntext = "x"\nusd = 0.25')
    assert (await stated.complete(ask())).usd == 0.25
    assert stated.price() is None
    unpriced = script('unpriced = true\n[[answer]]\ntext = "x"')
    assert (await unpriced.complete(ask())).usd is None
    assert unpriced.price() is None
    free = script('[[answer]]\ntext = "x"')
    assert (await free.complete(ask())).usd == 0.0


async def test_errors_come_before_the_answer_of_each_query(script, ask):
    client = script('[[answer]]\ntext = "at last"\nerrors = [429, "timeout"]\nretry_after_seconds = 3')
    for step in (0, 1):
        for _ in range(2):
            with pytest.raises(ProviderError) as caught:
                await client.complete(ask(step))
            assert caught.value.transient
            assert caught.value.retry_after_seconds == 3
        assert await say(client, ask(step)) == "at last"
        assert await say(client, ask(step)) == "at last"


async def test_without_a_text_the_last_error_repeats(script, ask):
    client = script("[[answer]]\nerrors = [503, 400]")
    seen = []
    for _ in range(4):
        with pytest.raises(ProviderError) as caught:
            await client.complete(ask())
        seen.append(caught.value.transient)
    assert seen == [True, False, False, False]


@pytest.mark.parametrize("status", [401, 402, 403, 404])
async def test_errors_of_the_user_are_user_errors(script, ask, status):
    with pytest.raises(UserError, match=str(status)):
        await script(f"[[answer]]\nerrors = [{status}]").complete(ask())


async def test_a_delay_is_waited(script, ask):
    started = time.monotonic()
    await script('[[answer]]\ntext = "x"\ndelay_seconds = 0.2').complete(ask())
    assert time.monotonic() - started >= 0.2


async def test_no_fitting_answer_fails_for_good(script, ask):
    with pytest.raises(ProviderError, match="role coa, step 0") as caught:
        await script('[[answer]]\nrole = "efa"\ntext = "x"').complete(ask())
    assert not caught.value.transient


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps([{"role": "coa", "text": "hi"}])),
        ("b.json", json.dumps({"model": "m", "answer": [{"text": "hi"}]})),
        ("c.jsonl", '{"role": "coa", "text": "hi"}\n\n{"role": "efa", "text": "ho"}\n'),
    ],
)
async def test_json_and_json_lines_are_read(script, ask, name, text):
    assert await say(script(text, name), ask()) == "hi"


@pytest.mark.parametrize(
    "text",
    [
        "answer = 3",
        "[[answer]]\nrole = 'boss'",
        "[[answer]]\ntxt = 'typo'",
        "[[answer]]\nerrors = [200]",
        "[[answer]]\nregex = '('",
        "[[answer]]\ntake = 'no group'",
        "[[answer]]\ntake = '(two) (groups)'",
        "[[answer]]\nreplace = [['(', '']]",
        "[[answer]]\nreplace = [['a', '\\9']]",
        "[[answer]]\nfile = 'missing.py'",
        "[[answer]]\nfinish = 'sometimes'",
        "unknown = 1",
        "not toml at all",
        "[[answer]]\ntext = 5",
    ],
)
def test_a_wrong_script_is_a_user_error_that_names_the_file(script, text):
    with pytest.raises(UserError, match=r"play\.toml"):
        script(text)


def test_a_missing_script_is_a_user_error():
    with pytest.raises(UserError, match=r"nowhere\.toml"):
        connect("scripted:nowhere.toml", LlmConfig())


async def test_replay_repeats_what_was_recorded_and_invents_nothing(ask):
    recorded = Answer("hello", Finish.LENGTH, "gpt-5", 10, 20, 5, 0.5, 3.0)
    client = ReplayClient("replay:runs/demo", {4: recorded})
    await client.check()
    assert await client.complete(ask(4)) == recorded
    with pytest.raises(ProviderError, match="step 5") as caught:
        await client.complete(ask(5))
    assert not caught.value.transient
