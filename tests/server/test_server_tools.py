"""What agents can do and what they are told, through the SDK's own client."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace

import pytest
from mcp import Client
from server_material import call, error, file

from pike import server
from pike.api.external import ANSWER_BYTES, ExternalRuns
from pike.api.views import summarise
from pike.engine.executors.instant import InstantExecutor
from pike.server.runs import Runs
from pike.server.tools import build
from pike.store.schema import FILE_NAME


@pytest.fixture
async def client(offer: server.Offer, external: ExternalRuns):
    runs = Runs(external, offer)
    connected: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def hold() -> None:
        # One task opens and closes it: pytest does the two from different ones, which the SDK does not bear.
        async with Client(build(runs)) as opened:
            connected.set_result(opened)
            await over.wait()

    holder = asyncio.create_task(hold())
    yield await connected
    over.set()
    await holder


async def test_an_agent_finds_a_task_begins_a_run_and_reads_what_it_needs(client, offer) -> None:
    listed = await call(client, "list_tasks")
    assert listed["runs"] == []
    assert "tiny" in {row["task"] for row in listed["tasks"]}
    assert "demo/resnet18" in {row["task"] for row in listed["tasks"]}
    assert "class Model" in (await call(client, "read_task", run="tiny"))["source"]

    begun = await call(client, "start_run", task="tiny")
    read = await call(client, "read_task", run=begun["run"])
    assert read == begun
    assert (read["device"], read["precision"], read["tolerance"]) == ("instant", "same", "strict")
    assert "class Model(torch.nn.Module)" in read["brief"]
    assert "What counts as correct" in read["brief"]
    assert read["best"] == []
    assert (read["budget"]["queries_left"], read["budget"]["queries_asked"]) == (3, 0)
    assert (await call(client, "list_tasks"))["runs"][0]["state"] == "stopped"


async def test_every_judged_file_uses_a_query_and_a_known_one_does_not(client) -> None:
    await call(client, "start_run", task="tiny")
    wrong = await call(client, "evaluate", source=file("wrong-output off by 0.3"))
    assert wrong["evaluation"]["status"] == "wrong-output"
    assert wrong["evaluation"]["reason"] == "off by 0.3"
    assert wrong["budget"]["queries_left"] == 2
    good = await call(client, "evaluate", source=file("valid 4ms"), parent="c0", author="an agent", usd=0.5)
    assert (good["candidate"], good["parent"], good["best_so_far"]) == ("c1", "c0", True)
    assert good["evaluation"]["profile"]["hotspots"]
    assert (good["budget"]["queries_left"], good["budget"]["usd_spent"]) == (1, 0.5)
    again = await call(client, "submit", source=file("valid 4ms"))
    assert (again["known"], again["candidate"], again["budget"]["queries_left"]) == (True, "c1", 1)


async def test_the_budget_ends_the_run_and_then_tools_say_so(client) -> None:
    await call(client, "start_run", task="tiny")
    for ms in (4, 2, 3):
        last = await call(client, "submit", source=file(f"valid {ms}ms final {ms + 1}ms"))
    assert last["budget"]["finished"]
    assert last["budget"]["reported_speedup"] == pytest.approx(10 / 3)
    said = await error(client, "evaluate", source=file("valid 1ms"))
    assert "is finished" in said
    assert "3 of 3 queries are spent" in said
    assert (await call(client, "budget"))["queries_left"] == 0


async def test_lineage_and_candidates_can_be_read(client) -> None:
    await call(client, "start_run", task="tiny")
    await call(client, "submit", source=file("valid 4ms"))
    await call(client, "submit", source=file("build-error boom"), parent="original")
    rows = (await call(client, "lineage"))["candidates"]
    assert [(row["candidate"], row["parent"], row["status"]) for row in rows] == [
        ("c0", "original", "valid"),
        ("c1", "original", "build-error"),
    ]
    read = await call(client, "read_candidate", candidate="c1")
    assert read["source"] == file("build-error boom")
    assert read["evaluation"]["reason"] == "boom"
    assert "no candidate 'c7'" in await error(client, "read_candidate", candidate="c7")


async def test_an_agent_may_end_a_run(client, offer) -> None:
    run = (await call(client, "start_run", task="tiny"))["run"]
    await call(client, "submit", source=file("valid 4ms final 5ms"))
    assert (await call(client, "finish_run"))["reported_speedup"] == 2.0
    assert (offer.root / run / "best.py").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"source": "   "}, "empty"),
        ({"source": "#" * (ANSWER_BYTES + 1)}, "at most"),
        ({"source": "\x7fELF\0\0"}, "binary"),
        ({"source": file("valid 1ms"), "parent": "c9"}, "no candidate 'c9'"),
        ({"source": file("valid 1ms"), "run": "../../etc"}, "no run '../../etc'"),
        ({}, "evaluate cannot take these arguments: source: Field required"),
    ],
)
async def test_what_cannot_be_used_is_refused_in_words_and_costs_nothing(client, arguments, said) -> None:
    await call(client, "start_run", task="tiny")
    message = await error(client, "evaluate", **arguments)
    assert said in message
    assert "Traceback" not in message and "pydantic" not in message
    assert (await call(client, "budget"))["queries_left"] == 3


async def test_a_task_that_is_not_on_offer_cannot_be_begun(client, tmp_path) -> None:
    (tmp_path / "other.py").write_text("print('run in the server')")
    for name in (str(tmp_path / "other.py"), "os:getcwd", "demo/none"):
        assert "on offer" in await error(client, "start_run", task=name)


async def test_the_runs_of_another_server_are_neither_listed_nor_read(client, offer, external) -> None:
    earlier = Runs(external, offer)
    async with Client(build(earlier)) as other:
        run = (await call(other, "start_run", task="tiny"))["run"]
        await call(other, "submit", source=file("valid 4ms"))
    assert (await call(client, "list_tasks"))["runs"] == []
    assert f"no run '{run}'" in await error(client, "read_candidate", candidate="c0", run=run)
    assert f"no run '{run}'" in await error(client, "lineage", run=run)
    assert "no task" in await error(client, "read_task", run=run)
    own = (await call(client, "start_run", task="tiny"))["run"]
    assert [row["run"] for row in (await call(client, "list_tasks"))["runs"]] == [own]


async def test_a_journal_whose_terms_were_edited_gets_no_verdict(client, offer) -> None:
    run = (await call(client, "start_run", task="tiny"))["run"]
    await call(client, "submit", source=file("valid 4ms"))
    with sqlite3.connect(offer.root / run / FILE_NAME) as journal:
        edited = journal.execute(
            "UPDATE events SET body = replace(body, '\"strict\"', '\"paper\"') WHERE seq = 1"
        ).rowcount
    assert edited == 1
    assert "was edited" in await error(client, "submit", source=file("valid 2ms"))


async def test_which_run_is_meant_must_be_clear(client) -> None:
    assert "there is none yet" in await error(client, "budget")
    first = (await call(client, "start_run", task="tiny"))["run"]
    second = (await call(client, "start_run", task="tiny"))["run"]
    assert first != second
    said = await error(client, "budget")
    assert first in said
    assert second in said


async def test_a_run_of_another_strategy_is_played_by_prompts(offer, external) -> None:
    options = {**offer.options, "strategy": "pike-b", "llm": "by-hand", "concurrency": 1}
    runs = Runs(external, replace(offer, options=options))  # type: ignore[arg-type]
    async with Client(build(runs)) as client:
        await call(client, "start_run", task="tiny")
        assert "No prompt" in await error(client, "submit", source=file("valid 1ms"))
        prompt = await call(client, "next_prompt")
        assert prompt["role"] == "iba"
        ideas = await call(client, "answer_prompt", text="1. fuse everything\n2. less memory", step=prompt["step"])
        assert ideas["ideas"] == ["fuse everything", "less memory"]
        prompt = await call(client, "next_prompt")
        assert "fuse everything" in prompt["prompt"]
        told = await call(client, "submit", source=file("valid 2ms"))
        assert told["evaluation"]["speedup"] == 5.0


async def test_a_call_that_is_given_up_loses_nothing(offer) -> None:
    slow = ExternalRuns(InstantExecutor(delay_seconds=0.3), load=None)
    async with Client(build(Runs(slow, offer))) as client:
        run = (await call(client, "start_run", task="tiny"))["run"]
        giving_up = asyncio.create_task(client.call_tool("evaluate", {"source": file("valid 2ms")}))
        await asyncio.sleep(0.15)
        giving_up.cancel()
        await asyncio.gather(giving_up, return_exceptions=True)
        told = await call(client, "submit", source=file("valid 4ms"))
    assert (told["candidate"], told["budget"]["queries_left"]) == ("c1", 1)
    summary = summarise(offer.root / run)
    assert [entrant.speedup for entrant in summary.entrants] == [5.0, 2.5]


async def test_tools_say_what_changes_something(client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {name for name, tool in tools.items() if tool.annotations.read_only_hint} == {
        "list_tasks",
        "read_task",
        "read_candidate",
        "lineage",
        "budget",
    }
    assert all(tool.description and "Raises" not in tool.description for tool in tools.values())


def nulls(value: object) -> bool:
    if isinstance(value, dict):
        return any(item is None or nulls(item) for item in value.values())
    return isinstance(value, list) and any(map(nulls, value))


async def test_answers_begin_with_a_sentence_and_hold_no_nulls(client) -> None:
    run = (await call(client, "start_run", task="tiny"))["run"]
    wrong = await call(client, "submit", source=file("wrong-output off by 0.3"))
    good = await call(client, "evaluate", source=file("valid 4ms"))
    again = await call(client, "submit", source=file("valid 4ms"))
    assert [next(iter(one)) for one in (wrong, good, again)] == ["summary"] * 3
    assert wrong["summary"] == "c0 was refused with wrong-output; 2 of 3 queries left."
    assert "off by" not in wrong["summary"], "a candidate may have written it"
    assert good["summary"].startswith("c1 is right and 2.50×") and "best so far" in good["summary"]
    assert "no query was used" in again["summary"]
    looks = [await call(client, tool, run=run) for tool in ("read_task", "lineage", "budget")]
    looks += [await call(client, "list_tasks"), await call(client, "read_candidate", candidate="c1")]
    assert not any(map(nulls, [wrong, good, again, *looks]))


async def test_a_file_that_does_not_parse_is_sent_back_free(client) -> None:
    await call(client, "start_run", task="tiny")
    said = await error(client, "evaluate", source="import torch\nclass ModelNew(:\n    pass\n")
    assert "line 2" in said and "no query was used" in said and "Traceback" not in said
    budget = await call(client, "budget")
    assert (budget["queries_left"], budget["queries_asked"]) == (3, 0)


async def test_finishing_says_what_was_found_and_where(client, offer) -> None:
    run = (await call(client, "start_run", task="tiny"))["run"]
    await call(client, "submit", source=file("valid 4ms final 5ms"))
    done = await call(client, "finish_run")
    best = offer.root.resolve() / run / "best.py"
    assert next(iter(done)) == "summary" and done["best_file"] == str(best)
    assert "c0 is 2.00×" in done["summary"] and str(best) in done["summary"]
    assert (
        done["improved"]
        and done["page"] == str(best.with_name("report.html"))
        and best.with_name("report.html").exists()
    )


@pytest.mark.parametrize(
    ("verdicts", "why"),
    [
        (["wrong-output a", "build-error b"], "of 2 candidates none passed the judge"),
        (["valid 9ms final 10ms"], "c0, measured 1.00×"),
    ],
)
async def test_finishing_says_why_the_original_stays(client, verdicts, why) -> None:
    await call(client, "start_run", task="tiny")
    for verdict in verdicts:
        await call(client, "submit", source=file(verdict))
    done = await call(client, "finish_run")
    assert done["summary"].startswith("The original stays: ") and why in done["summary"]
    assert not done["improved"] and "best_file" not in done and not nulls(done)


async def test_the_last_query_brings_the_result_too(client) -> None:
    await call(client, "start_run", task="tiny")
    for ms in (4, 2, 3):
        last = await call(client, "submit", source=file(f"valid {ms}ms"))
    assert last["result"]["summary"].startswith("c1 is 5.00×")


async def test_times_beside_other_programs_are_called_unreliable(offer) -> None:
    class Crowded(InstantExecutor):
        async def evaluate(self, request, on_stage=None):
            verdict = await super().evaluate(request, on_stage)
            return replace(verdict, timing=verdict.timing and replace(verdict.timing, contention=0.4))

    crowded = ExternalRuns(Crowded(), load=None)
    async with Client(build(Runs(crowded, offer))) as client:
        await call(client, "start_run", task="tiny")
        told = await call(client, "submit", source=file("valid 4ms"))
        assert "held the CPU in 40%" in told["warning"] and "unreliable" in told["warning"]
        assert "unreliable" in (await call(client, "read_candidate", candidate="c0"))["warning"]
        assert "unreliable" in (await call(client, "finish_run"))["warning"]
