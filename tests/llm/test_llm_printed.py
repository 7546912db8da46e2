"""What print-mode coding agents print, in the forms that they document or were seen to print."""

import json
import shlex
import sys

import pytest

from pike.core.errors import ProviderError
from pike.core.query import Finish
from pike.core.settings.config import LlmConfig
from pike.llm import connect
from pike.llm.printed import read

CLAUDE = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "the answer",
    "total_cost_usd": 0.0625,
    "usage": {
        "input_tokens": 10,
        "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 60,
        "output_tokens": 40,
    },
    "modelUsage": {"a-model": {"outputTokens": 40}},
}
CODEX = [
    {"type": "thread.started", "thread_id": "t"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": "hm"}},
    {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "first I look"}},
    {"type": "item.completed", "item": {"id": "item_2", "type": "agent_message", "text": "the answer"}},
    {
        "type": "turn.completed",
        "usage": {
            "input_tokens": 100,
            "cached_input_tokens": 60,
            "output_tokens": 40,
            "reasoning_output_tokens": 25,
        },
    },
]
GEMINI = {
    "response": "the answer",
    "stats": {
        "models": {
            "a-model": {
                "tokens": {"prompt": 60, "candidates": 10, "total": 75, "cached": 50, "thoughts": 5, "tool": 0}
            },
            "b-model": {
                "tokens": {"prompt": 30, "candidates": 20, "total": 65, "cached": 0, "thoughts": 5, "tool": 10}
            },
        }
    },
}


def lines(rows):
    return "\n".join(json.dumps(row) for row in rows)


@pytest.mark.parametrize(
    ("output", "usd", "thinking", "model"),
    [
        (json.dumps(CLAUDE), 0.0625, 0, "a-model"),
        (json.dumps([{"type": "system"}, CLAUDE]), 0.0625, 0, "a-model"),
        (lines([{"type": "system"}, {"type": "assistant", "message": {}}, CLAUDE]), 0.0625, 0, "a-model"),
        (lines(CODEX), None, 25, ""),
        (json.dumps(GEMINI, indent=2), None, 10, "a-model, b-model"),
    ],
    ids=["claude", "claude-list", "claude-stream", "codex", "gemini"],
)
def test_the_answer_and_what_it_cost_are_read(output, usd, thinking, model):
    said = read(output)
    assert (said.text, said.error, said.cut_off) == ("the answer", "", False)
    assert (said.input_tokens, said.output_tokens) == (100, 40)
    assert (said.usd, said.thinking_tokens, said.model) == (usd, thinking, model)


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (json.dumps({**CLAUDE, "is_error": True, "result": "usage limit"}), "usage limit"),
        (json.dumps({"is_error": True, "subtype": "error_max_turns"}), "error_max_turns"),
        (lines([*CODEX[:2], {"type": "turn.failed", "error": {"message": "stream disconnected"}}]), "disconnected"),
        (json.dumps({"error": {"type": "ApiError", "message": "quota"}, "stats": {}}), "quota"),
    ],
)
def test_an_error_is_an_error_and_no_answer(output, error):
    assert error in read(output).error


@pytest.mark.parametrize(
    "output",
    [
        "plain text",
        '{"speedup": 2}',
        '{"response": 1}',
        "[1, 2]",
        "{not json}",
        '{"type": "turn.started"}\n',
        '{"a": 1}\nand then words',
        "",
    ],
)
def test_anything_else_is_the_answer_itself(output):
    assert read(output).text == output
    assert read(output).usd is None


@pytest.mark.parametrize("nonsense", [-1, True, "0.5", None, [], {"usd": 1}])
def test_money_that_is_no_amount_is_unknown(nonsense):
    said = read(json.dumps({"result": "x", "total_cost_usd": nonsense, "usage": {"output_tokens": nonsense}}))
    assert (said.usd, said.output_tokens) == (None, 0)


async def test_a_command_that_reports_its_cost_is_counted(ask, tmp_path):
    script = tmp_path / "agent.py"
    script.write_text(f"import sys; sys.stdin.read(); print({json.dumps(CLAUDE)!r})")
    client = connect(f"command:{shlex.join([sys.executable, str(script), '-p'])}", LlmConfig())
    answer = await client.complete(ask())
    assert (answer.text, answer.usd, answer.model, answer.output_tokens) == ("the answer", 0.0625, "a-model", 40)


async def test_an_error_that_was_paid_for_is_counted_and_not_tried_again(ask, tmp_path):
    script = tmp_path / "agent.py"
    failed = json.dumps({**CLAUDE, "is_error": True, "result": "too many turns"})
    script.write_text(f"import sys; sys.stdin.read(); print({failed!r})")
    answer = await connect(f"command:{shlex.join([sys.executable, str(script)])}", LlmConfig()).complete(ask())
    assert (answer.finish, answer.usd, answer.text) == (Finish.REFUSED, 0.0625, "too many turns")


def test_a_turn_without_usage_says_nothing_of_tokens():
    said = read(lines([CODEX[4], {"type": "turn.completed"}]))
    assert (said.text, said.input_tokens, said.output_tokens) == ("the answer", 0, 0)


async def test_a_failed_turn_is_worth_another_attempt(ask, tmp_path):
    script = tmp_path / "agent.py"
    failed = json.dumps({"type": "turn.failed", "error": {"message": "overloaded"}})
    script.write_text(f"import sys; sys.stdin.read(); print({failed!r})")
    client = connect(f"command:{shlex.join([sys.executable, str(script)])}", LlmConfig())
    with pytest.raises(ProviderError, match="overloaded") as caught:
        await client.complete(ask())
    assert caught.value.transient
