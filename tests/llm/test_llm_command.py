import asyncio
import json
import shlex
import sys
import time

import pytest

from pike.core.errors import ProviderError, UserError
from pike.core.query import Finish
from pike.core.settings.config import LlmConfig
from pike.llm import connect


def program(code, *args, timeout_seconds=20.0):
    """A client that runs a piece of Python."""
    line = shlex.join([sys.executable, "-c", code, *args])
    return connect(f"command:{line}", LlmConfig(timeout_seconds=timeout_seconds))


async def test_the_prompt_goes_in_and_the_answer_comes_out(ask):
    client = program("import sys; text = sys.stdin.read(); print(len(text), text.upper())")
    answer = await client.complete(ask(prompt="größer please"))
    assert "YOU WRITE KERNELS\n\nGRÖSSER PLEASE" in answer.text
    assert answer.finish is Finish.STOP
    assert answer.usd is None
    assert answer.input_tokens > 0
    assert answer.output_tokens > 0


@pytest.mark.parametrize("wrap", [lambda report: report, lambda report: [{"type": "system"}, report]])
async def test_the_report_of_a_print_mode_agent_is_read(ask, wrap):
    report = {
        "type": "result",
        "result": "the answer",
        "total_cost_usd": 0.0625,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 40},
    }
    answer = await program("import sys; print(sys.argv[1])", json.dumps(wrap(report))).complete(ask())
    assert answer.text == "the answer"
    assert (answer.usd, answer.input_tokens, answer.output_tokens) == (0.0625, 100, 40)


async def test_a_report_of_an_error_is_a_failure(ask):
    report = json.dumps({"is_error": True, "result": "usage limit reached"})
    with pytest.raises(ProviderError, match="usage limit") as caught:
        await program("import sys; print(sys.argv[1])", report).complete(ask())
    assert caught.value.transient


async def test_json_that_is_no_report_is_the_answer_itself(ask):
    answer = await program("""print('{"speedup": 2}')""").complete(ask())
    assert answer.text == '{"speedup": 2}'


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit('rate limited')", "rate limited"),
        ("pass", "no answer"),
        ('print(\'{"result": ""}\')', "no answer"),
    ],
)
async def test_a_program_that_fails_is_transient_and_quoted(ask, code, said):
    with pytest.raises(ProviderError, match=said) as caught:
        await program(code).complete(ask())
    assert caught.value.transient


async def test_a_program_that_ignores_a_long_prompt_may_still_answer(ask):
    answer = await program("print('short')").complete(ask(prompt="x" * 3_000_000))
    assert answer.text == "short"


async def test_a_slow_program_is_killed_with_its_children(ask, tmp_path):
    mark = tmp_path / "alive"
    child = f"import time, pathlib; time.sleep(5); pathlib.Path({str(mark)!r}).touch()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    started = time.monotonic()
    with pytest.raises(ProviderError, match=r"within 0\.5 seconds") as caught:
        await program(code, timeout_seconds=0.5).complete(ask())
    assert caught.value.transient
    assert time.monotonic() - started < 4.9
    await asyncio.sleep(5.2)
    assert not mark.exists()


async def test_a_missing_program_is_a_user_error(ask):
    client = connect("command:no-such-agent-here --print", LlmConfig())
    with pytest.raises(UserError, match="no-such-agent-here"):
        await client.check()
    with pytest.raises(UserError, match="no-such-agent-here"):
        await client.complete(ask())


async def test_runs_are_parallel(ask):
    client = program("import time; time.sleep(1.5); print('ok')")
    started = time.monotonic()
    await asyncio.gather(*(client.complete(ask(step_id=i)) for i in range(6)))
    assert time.monotonic() - started < 8
