"""Runs that are answered from outside: one move a process, the same journal and the same judge as any run."""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_material import TASK, config, events, wiring, write_script

from pike import engine
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.events import Asked, Judged, Proposed, QueryAnswered, QuerySent, Told
from pike.core.query import Answer
from pike.core.step import Role
from pike.core.verdict.evaluation import Effort, Evaluation, EvaluationRequest, Status
from pike.engine.executors.instant import InstantExecutor
from pike.engine.external import answers as answering
from pike.engine.external import external_run
from pike.engine.external.status import MoveReply
from pike.store import Journal


def file(instant: str, mark: str = "x") -> str:
    return f"import torch\n# pike-instant: {instant}\nclass ModelNew(torch.nn.Module):\n    mark = {mark!r}\n"


def answer(instant: str, mark: str = "x", **more: Any) -> Answer:
    return Answer(answering.as_answer(file(instant, mark)).text, **more)


async def begin(folder: Path, strategy: str = "agent", queries: int = 4, **more: Any) -> engine.RunResult:
    name, options = more.pop("llm", "by-hand"), more.pop("options", {})
    chosen = config(name, queries, strategy=strategy, **more)
    chosen = replace(chosen, strategy=replace(chosen.strategy, options=options))
    return await engine.start(TASK, chosen, folder, wiring())


async def tell(folder: Path, said: Answer, **more: Any) -> MoveReply:
    return await external_run.tell(folder, said, wiring(), **more)


async def test_a_run_waits_and_has_asked_for_nothing_yet(tmp_path: Path) -> None:
    result = await begin(tmp_path)
    assert (result.stopped, result.finished, result.spend.queries) == ("waiting", False, 0)
    assert "pike ask" in result.resume_command


async def test_an_answer_is_judged_and_goes_through_ledger_and_journal(tmp_path: Path) -> None:
    await begin(tmp_path)
    reply = await tell(tmp_path, answer("valid 4ms", usd=0.25, input_tokens=10, output_tokens=20, model="a-person"))
    assert reply.solution is not None
    assert (reply.solution.evaluation.speedup, reply.status.left) == (2.5, 3)
    assert (reply.status.spend.usd, reply.status.spend.tokens) == (0.25, 30)
    assert reply.solution.candidate.author == "a-person"
    kinds = [type(event) for event in events(tmp_path)]
    order = [kinds.index(kind) for kind in (Asked, QuerySent, QueryAnswered, Proposed, Judged, Told)]
    assert order == sorted(order)


async def test_every_step_offers_the_fastest_and_an_answer_may_continue_another(tmp_path: Path) -> None:
    await begin(tmp_path)
    for ms in (4, 2, 3):
        await tell(tmp_path, answer(f"valid {ms}ms"))
    question = await external_run.ask(tmp_path, wiring())
    assert (question.step.seed, question.step.inspirations) == ("c1", ("c2", "c0"))
    assert "# pike-instant: valid 2ms" in question.prompt
    reply = await tell(tmp_path, answer("wrong-output off", parent="c0"))
    assert reply.solution is not None
    assert reply.solution.candidate.parent == "c0"


class OfAnotherMaker(InstantExecutor):
    async def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts(device, "another GPU")


async def test_another_device_gives_prompts_and_judges_nothing(tmp_path: Path) -> None:
    await begin(tmp_path)
    there = wiring(executor=OfAnotherMaker())
    (question,) = await external_run.ask_all(tmp_path, there)
    held = events(tmp_path)
    for refused in (
        external_run.tell(tmp_path, answer("valid 4ms"), there, step=question.step.id),
        engine.resume_run(tmp_path, there),
        external_run.finish(tmp_path, there),
    ):
        with pytest.raises(UserError, match=r"another GPU.*pike bundle"):
            await refused
    assert events(tmp_path) == held
    assert (await tell(tmp_path, answer("valid 4ms"), step=question.step.id)).status.left == 3


async def test_the_last_query_brings_the_run_to_its_end(tmp_path: Path) -> None:
    await begin(tmp_path, queries=2)
    await tell(tmp_path, answer("valid 2ms final 6ms", "a"))
    reply = await tell(tmp_path, answer("valid 3ms final 5ms", "b"))
    assert reply.status.result.finished
    assert reply.status.result.best is not None
    assert reply.status.result.best.id == "c1"
    with pytest.raises(UserError, match="finished"):
        await tell(tmp_path, answer("valid 1ms"))
    with pytest.raises(UserError, match="2 of 2 queries are spent"):
        await external_run.ask(tmp_path, wiring())


async def test_a_file_that_was_judged_is_answered_from_the_journal_free_of_queries(tmp_path: Path) -> None:
    await begin(tmp_path)
    first = await tell(tmp_path, answer("valid 2ms"))
    again = await tell(tmp_path, answer("valid 2ms"))
    assert again.known
    assert again.solution == first.solution
    assert again.status.left == first.status.left == 3
    assert sum(isinstance(event, Judged) for event in events(tmp_path)) == 1


async def test_asking_twice_asks_once_and_uses_one_query(tmp_path: Path) -> None:
    await begin(tmp_path)
    one, two = await external_run.ask(tmp_path, wiring()), await external_run.ask(tmp_path, wiring())
    assert one == two
    assert (one.status.left, one.status.spend.queries, len(one.status.waiting)) == (4, 1, 1)
    reply = await tell(tmp_path, answer("valid 2ms"), step=one.step.id)
    assert (reply.status.left, reply.status.spend.queries, reply.status.waiting) == (3, 1, ())


async def test_a_run_can_be_ended_early(tmp_path: Path) -> None:
    await begin(tmp_path)
    await tell(tmp_path, answer("valid 2ms final 4ms"))
    result = await external_run.finish(tmp_path, wiring())
    assert (result.finished, result.stopped, result.speedup, result.spend.queries) == (True, "exhausted", 2.5, 1)


async def test_the_prompts_of_another_strategy_appear_in_turn(tmp_path: Path) -> None:
    await begin(tmp_path, "pike-b", queries=3, concurrency=1, options={"pacing": {"samples": 1}})
    seen = []
    said = [
        Answer("1. fuse everything\n2. use half precision"),
        answer("build-error boom", "a"),
        answer("valid 4ms", "b"),
        answer("valid 2ms", "c"),
    ]
    for one in said:
        question = await external_run.ask(tmp_path, wiring())
        seen.append((question.step.role, question.step.failing))
        reply = await tell(tmp_path, one, step=question.step.id)
    assert seen == [(Role.BRAINSTORM, None), (Role.OPTIMISE, None), (Role.FIX, "c1"), (Role.OPTIMISE, None)]
    assert reply.status.result.finished
    assert reply.status.result.speedup == 5.0


async def test_models_may_answer_some_of_the_roles(tmp_path: Path) -> None:
    fixer = write_script(tmp_path / "fixer.json", [{"role": "efa", "text": answer("valid 2ms", "fixed").text}])
    more: dict[str, Any] = {"models": {"efa": fixer}, "options": {"pacing": {"samples": 1}}}
    await begin(tmp_path / "run", "pike-b:no-iba", queries=2, concurrency=1, **more)
    question = await external_run.ask(tmp_path / "run", wiring())
    reply = await tell(tmp_path / "run", answer("build-error boom"), step=question.step.id)
    assert reply.solution is not None
    assert reply.solution.evaluation.status is Status.BUILD_ERROR
    assert reply.status.result.finished
    assert reply.status.result.best is not None
    assert reply.status.result.best.parent == "original"


async def test_a_run_with_external_answers_can_be_replayed(tmp_path: Path) -> None:
    await begin(tmp_path / "run", queries=3)
    for said in (answer("valid 4ms", "a"), answer("wrong-output", "b", parent="c0"), answer("valid 3ms", "c")):
        await tell(tmp_path / "run", said)
    again = await engine.start(
        TASK, config(f"replay:{tmp_path / 'run'}", 3, strategy="agent"), tmp_path / "again", wiring(executor=None)
    )
    assert again.finished
    proposed = [[e for e in events(tmp_path / name) if isinstance(e, Proposed)] for name in ("run", "again")]
    assert proposed[0] == proposed[1]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (Answer("  \n"), "empty"),
        (Answer("x" * (answering.ANSWER_BYTES + 1)), "at most"),
        (Answer("import torch\0"), "binary"),
        (answer("valid 1ms", parent="c9"), "no candidate 'c9'"),
        (answer("valid 1ms", usd=float("nan")), "cannot cost nan"),
        (answer("valid 1ms", usd=-1.0), "cannot cost -1"),
        (answer("valid 1ms", model="me\nand you"), "author"),
        (answer("valid 1ms", model="m" * 101), "author"),
        (Answer("\ud800"), "binary"),
    ],
)
async def test_what_cannot_be_an_answer_is_refused_and_costs_nothing(
    tmp_path: Path, said: Answer, message: str
) -> None:
    await begin(tmp_path)
    before = events(tmp_path)
    with pytest.raises(UserError, match=message):
        await tell(tmp_path, said)
    assert events(tmp_path) == before


async def test_an_answer_without_code_is_a_refused_candidate_like_a_models(tmp_path: Path) -> None:
    await begin(tmp_path)
    reply = await tell(tmp_path, Answer("I would rather not."))
    assert reply.solution is not None
    assert reply.solution.evaluation.status is Status.PARSE_ERROR
    assert reply.status.left == 3


async def test_a_file_with_a_syntax_error_costs_no_query(tmp_path: Path) -> None:
    await begin(tmp_path)
    source = file("build-error boom") + "\ndef broken(:\n"
    line = source.splitlines().index("def broken(:") + 1
    with pytest.raises(UserError, match=f"no query was used: line {line}: "):
        await tell(tmp_path, answering.as_answer(source))
    reply = await tell(tmp_path, answering.as_answer(file("valid 2ms")))
    assert reply.solution is not None and reply.solution.candidate.id == "c0" and reply.status.left == 3


async def test_a_model_that_writes_a_syntax_error_is_judged_because_it_is_repaired(tmp_path: Path) -> None:
    await begin(tmp_path, "pike-b:no-iba", concurrency=1)
    await external_run.ask(tmp_path, wiring())
    source = file("build-error boom") + "\ndef broken(:\n"
    reply = await tell(tmp_path, answering.as_answer(source))
    assert reply.solution is not None and reply.solution.candidate.source == source


async def test_it_must_be_clear_which_prompt_is_answered(tmp_path: Path) -> None:
    await begin(tmp_path, "pike-b:no-iba", concurrency=1)
    for step in (None, 7):
        with pytest.raises(UserError, match="pike ask"):
            await tell(tmp_path, answer("valid 2ms"), step=step)
    question = await external_run.ask(tmp_path, wiring())
    with pytest.raises(UserError, match="Step 7 does not wait"):
        await tell(tmp_path, answer("valid 2ms"), step=7)
    assert (await tell(tmp_path, answer("valid 2ms"))).step == question.step


async def test_a_run_of_models_takes_no_answers(tmp_path: Path) -> None:
    name = write_script(tmp_path / "script.json", [{"text": answer("valid 2ms").text}])
    await begin(tmp_path / "run", "pike-b:no-iba", llm=name, queries=1)
    with pytest.raises(UserError, match="not by hand"):
        await external_run.ask(tmp_path / "run", wiring())


async def test_of_two_tellers_at_once_one_hears_that_the_run_is_in_use(tmp_path: Path) -> None:
    await begin(tmp_path)
    with Journal.open(tmp_path), pytest.raises(UserError, match="in use by process"):
        await tell(tmp_path, answer("valid 2ms"))
    assert (await tell(tmp_path, answer("valid 2ms"))).status.left == 3


class Dies:
    """A judge whose process is killed before it says anything."""

    def __init__(self) -> None:
        self._inner = engine.InstantExecutor()
        self.facts, self.aclose = self._inner.facts, self._inner.aclose
        self.began = asyncio.Event()

    async def evaluate(self, request: EvaluationRequest, on_stage: Any = None) -> Evaluation:
        self.began.set()
        await asyncio.Event().wait()
        raise AssertionError


async def test_an_answer_that_was_taken_survives_the_end_of_its_process(tmp_path: Path) -> None:
    await begin(tmp_path)
    judge = Dies()
    move = asyncio.create_task(external_run.tell(tmp_path, answer("valid 2ms"), wiring(executor=judge)))
    await judge.began.wait()
    move.cancel()
    with pytest.raises(asyncio.CancelledError):
        await move
    question = await external_run.ask(tmp_path, wiring())
    assert question.step.id == 1
    assert question.status.best is not None
    assert question.status.best.candidate.id == "c0"


async def test_a_profile_is_made_only_where_it_is_asked_for(tmp_path: Path) -> None:
    await begin(tmp_path)
    without = await tell(tmp_path, answer("valid 2ms", "a"))
    profiled = await tell(tmp_path, answer("valid 2ms", "b"), profile=True)
    assert without.solution is not None
    assert profiled.solution is not None
    assert without.solution.evaluation.profile is None
    assert profiled.solution.evaluation.profile is not None
    efforts = [event.effort for event in events(tmp_path) if isinstance(event, Judged)]
    assert efforts == [Effort.SEARCH, Effort.SEARCH]


async def test_of_several_prompts_the_one_that_was_named_is_answered(tmp_path: Path) -> None:
    fixer = write_script(tmp_path / "fixer.json", [{"role": "efa", "text": "no idea"}])
    more: dict[str, Any] = {"models": {"efa": fixer}, "concurrency": 3}
    await begin(tmp_path / "run", "pike-b:no-iba", queries=3, **more)
    assert len(external_run.status(tmp_path / "run").waiting) == 3
    with pytest.raises(UserError, match="--step and one of 0, 1, 2"):
        await tell(tmp_path / "run", answer("valid 2ms"))
    reply = await tell(tmp_path / "run", answer("valid 2ms"), step=1)
    assert reply.solution is not None
    assert reply.solution.candidate.id == "c1"
    assert [step.id for step in reply.status.waiting] == [0, 2]


@pytest.mark.slow
async def test_killed_at_any_point_every_answer_that_was_taken_is_judged_once(tmp_path: Path) -> None:
    await begin(tmp_path, queries=50)
    moments, first = random.Random(5), 0
    driver = [sys.executable, str(Path(__file__).with_name("external_driver.py")), str(tmp_path)]
    for _ in range(5):
        process = await asyncio.create_subprocess_exec(*driver, str(first), stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(2):
            first = int(await process.stdout.readline())
        await asyncio.sleep(moments.uniform(0.0, 0.15))
        process.kill()
        said = (await process.stdout.read()).split()
        await process.wait()
        first = int(said[-1]) if said else first
    taken = [event.answer.text for event in events(tmp_path) if isinstance(event, QueryAnswered)]
    status = (await external_run.ask(tmp_path, wiring())).status
    assert len(taken) >= 5
    assert len(taken) == len(set(taken))
    judged = [event.candidate_id for event in events(tmp_path) if isinstance(event, Judged)]
    assert len(judged) == len(set(judged)) == len(taken)
    assert status.left == 50 - len(taken)
