"""Whole runs with a scripted model and the instant judge."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_material import IDEAS, MIXED, TASK, ExplorerHere, RuledJudge, coa, config, efa, events, wiring, write_script

from pike import engine
from pike.core.agent import Context, Proposal
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.events import Asked, Finished, Judged, Proposed, QueryAnswered, QuerySent, RunStarted, Told
from pike.core.settings.config import PromptConfig
from pike.core.step import Role
from pike.core.task import TaskFile
from pike.core.verdict.evaluation import Effort, EvaluationRequest, Status
from pike.engine.state.progress import Progress
from pike.llm import confinement
from pike.recipes.search.explored import Explored


async def test_the_journal_keeps_its_order_rules(run, tmp_path: Path) -> None:
    await run(MIXED, queries=15, concurrency=4)
    seen = events(tmp_path / "run")
    assert isinstance(seen[0], RunStarted)
    assert isinstance(seen[-1], Finished)
    asked, sent, answered, proposed, judged = set[int](), set[int](), set[int](), set[str](), set[str]()
    for event in seen:
        match event:
            case Asked(step=step):
                asked.add(step.id)
            case QuerySent(query=query):
                assert query.step_id in asked
                sent.add(query.step_id)
            case QueryAnswered(step_id=step_id):
                assert step_id in sent
                answered.add(step_id)
            case Proposed(step_id=step_id, candidate=candidate):
                assert step_id in answered
                proposed.add(candidate.id)
            case Judged(candidate_id=id_, effort=Effort.SEARCH):
                assert id_ in proposed
                judged.add(id_)
            case Told(candidate_id=str() as id_):
                assert id_ in judged
    assert len([event for event in seen if isinstance(event, Told)]) == len(asked)


async def test_the_same_source_is_judged_once(run) -> None:
    sources = list[str]()

    def count(request: EvaluationRequest) -> None:
        sources.append(request.source)

    result = await run(
        [IDEAS, coa("valid 4ms", "same")], queries=12, concurrency=4, parts={"executor": RuledJudge(count)}
    )
    assert result.candidates == 12
    assert len(sources) == 2, "once while searching, once as a finalist"


class Examining(engine.InstantExecutor):
    """A judge that looks at the original first, and remembers how often it did."""

    def __init__(self, unfit: str = "") -> None:
        super().__init__()
        self.unfit, self.looks, self.limit = unfit, 0, 0.0

    async def preflight(self, request: EvaluationRequest) -> float | None:
        self.looks += 1
        self.limit = request.limit_seconds
        if self.unfit:
            raise UserError(self.unfit)
        return 12.5


async def test_an_original_that_does_not_run_ends_the_run_before_anything_is_spent_or_written(run, tmp_path) -> None:
    judge = Examining("the original does not run")
    with pytest.raises(UserError, match="the original does not run"):
        await run(MIXED, parts={"executor": judge}, max_hours=0.5)
    assert (judge.looks, judge.limit) == (1, 1800.0) and not (tmp_path / "run").exists()


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
async def test_recipes_look_at_a_model_while_a_gpu_judges_its_original(tmp_path: Path, device: str) -> None:
    order = list[str]()

    class Looking(Examining):
        async def facts(self, device_name: str) -> DeviceFacts:
            return DeviceFacts(device, "made up", capability="9.0")

        async def preflight(self, request: EvaluationRequest) -> float | None:
            order.append("preflight")
            await asyncio.sleep(0.2)
            order.append("looked at")
            return 12.5

        def prepare(self, request: EvaluationRequest) -> None:
            order.append("prepare")

    class Noting(ExplorerHere):
        def explore(self, *question: Any) -> Explored:
            order.append("explore")
            return Explored.nothing("nothing is written")

    parts = wiring(executor=Looking(), explorer=Noting(), load=lambda task: object())
    result = await engine.start(TASK, config(queries=3), tmp_path / "run", parts)
    assert result.best is None and order.count("explore") == 1
    assert order.index("preflight") < order.index("looked at") < order.index("prepare")
    assert (order.index("explore") < order.index("looked at")) == (device == "cuda:0")


async def test_the_originals_time_is_known_before_the_first_candidate_and_stays_without_a_valid_one(
    run, tmp_path
) -> None:
    seen, judge = list[Progress](), Examining()
    parts = {"executor": judge, "observer": seen.append}
    result = await run([IDEAS, coa("wrong-output", "never")], queries=4, strategy="pike-b:no-efa", parts=parts)
    assert seen[0].events == ("the original takes 12.5 ms a call",) and seen[0].reference_ms == 12.5
    sent = next(event.query.prompt for event in events(tmp_path / "run") if isinstance(event, QuerySent))
    assert "12.5" in sent
    assert result.best is None and result.flat()["reference_ms"] == 12.5
    again = await engine.resume_run(tmp_path / "run", wiring(executor=judge))
    assert (again.original_ms, judge.looks) == (12.5, 1), "once for each run"


async def test_the_time_in_a_verdict_is_better_than_that_of_the_preflight(run) -> None:
    result = await run([IDEAS, coa("valid 4ms", "a")], queries=3, parts={"executor": Examining()})
    assert (result.original_ms, result.flat()["reference_ms"]) == (10.0, 10.0)


async def test_an_answer_without_code_is_a_parse_error_that_gets_fixed(run) -> None:
    answers = [IDEAS, {"role": "coa", "text": "I would rather not."}, efa("valid 2ms", "fixed")]
    result = await run(answers, queries=2, concurrency=1, strategy="pike-b")
    assert dict(result.counts) == {Status.PARSE_ERROR: 2} or dict(result.counts) == {
        Status.PARSE_ERROR: 1,
        Status.VALID: 1,
    }


async def test_an_unusable_list_of_ideas_does_not_end_the_run(run) -> None:
    result = await run([{"role": "iba", "text": ""}, coa("valid 5ms", "a")], queries=5)
    assert (result.finished, result.candidates) == (True, 5)


async def test_the_judge_is_told_what_there_is_to_beat_search_terms(run) -> None:
    beaten = list[tuple[Effort, float]]()

    def listen(request: EvaluationRequest) -> None:
        beaten.append((request.effort, request.least_speedup))

    answers = [IDEAS, coa("valid 5ms", "a"), coa("valid 2ms", "b"), coa("valid 8ms", "c")]
    await run(answers, queries=4, concurrency=1, parts={"executor": RuledJudge(listen)})
    searching = [least_speedup for effort, least_speedup in beaten if effort is Effort.SEARCH]
    assert (searching[0], searching[-1]) == (0.0, 5.0)
    assert searching == sorted(searching)
    assert {least_speedup for effort, least_speedup in beaten if effort is Effort.FINAL} == {0.0}


async def test_an_agent_sees_what_was_known_when_it_was_asked(tmp_path: Path) -> None:
    contexts = list[Context]()

    class Looking:
        async def act(self, context: Context) -> Proposal:
            contexts.append(context)
            await asyncio.sleep(0.001 * (context.step.id % 3))
            return Proposal(f"# pike-instant: valid {9 - context.step.id / 10}ms\nmark = {context.step.id}")

    agents = dict.fromkeys(Role, Looking())
    setup = config(queries=12, concurrency=3, strategy="pike-b:no-iba")
    await engine.start(TASK, setup, tmp_path / "run", wiring(agents=agents))
    assert contexts[0].known == ()
    assert contexts[0].reference_ms is None
    assert contexts[-1].reference_ms == 10.0
    assert contexts[-1].seed is not None
    assert contexts[-1].seed.candidate.id == contexts[-1].step.seed


async def test_progress_shows_spend_best_and_what_is_being_done(run) -> None:
    seen = list[Progress]()
    await run(MIXED, queries=12, concurrency=3, parts={"observer": seen.append})
    assert {progress.phase for progress in seen} >= {"starting", "searching", "measuring", "done"}
    doing = {activity.doing for progress in seen for activity in progress.active}
    assert {"asking", "fixing", "waiting", "build"} <= doing
    assert max(len(progress.active) for progress in seen) <= 3
    spent = [progress.spend.queries for progress in seen]
    assert spent == sorted(spent)
    assert spent[-1] == 12
    assert seen[-1].active == ()
    assert seen[-1].best_speedup


async def test_two_processes_on_one_run_are_refused(run, tmp_path: Path) -> None:
    from pike.store import Journal

    await run(MIXED, queries=3)
    with Journal.open(tmp_path / "run"), pytest.raises(UserError, match="in use"):
        await engine.resume_run(tmp_path / "run", wiring())


async def test_resuming_a_finished_run_changes_nothing_and_says_so(run, tmp_path: Path) -> None:
    first = await run(MIXED, queries=8)
    before = len(events(tmp_path / "run"))
    (tmp_path / "run" / "best.py").unlink()
    again = await engine.resume_run(tmp_path / "run", wiring())
    assert "finished already" in again.notes[-1]
    assert (again.best, again.speedup) == (first.best, first.speedup)
    assert len(events(tmp_path / "run")) == before
    assert (tmp_path / "run" / "best.py").exists(), "files that were not written any more are written"


async def test_a_preset_about_its_own_model_needs_one(run) -> None:
    with pytest.raises(UserError, match="--efa-llm"):
        await run(MIXED, strategy="pike-b:cheap-efa")


@pytest.mark.parametrize("wanted", [True, False])
async def test_prompts_show_the_seeds_profile_where_that_is_asked_for(tmp_path: Path, wanted: bool) -> None:
    script = write_script(tmp_path / "script.json", [IDEAS, *[coa(f"valid {9 - i}ms", f"coa {i}") for i in range(8)]])
    terms = replace(config(script, queries=12), prompt=PromptConfig(profile=wanted))
    await engine.start(TASK, terms, tmp_path / "run", wiring())
    seen = events(tmp_path / "run")
    prompts = [
        event.query.prompt for event in seen if isinstance(event, QuerySent) and event.query.role is Role.OPTIMISE
    ]
    later = [prompt for prompt in prompts if "## The solution to improve" in prompt]
    assert later and all(("instant::work" in prompt) is wanted for prompt in later)
    for event in seen:
        if isinstance(event, Judged) and event.evaluation.valid:
            assert (event.evaluation.profile is not None) is (wanted and event.effort is Effort.SEARCH)


@pytest.mark.skipif(not confinement.works(), reason="no namespaces on this machine")
async def test_a_command_is_not_shown_the_solution_of_another_run(tmp_path: Path) -> None:
    copied = f"cat {tmp_path}/first/best.py 2>/dev/null || echo 'I found nothing.'"
    for name, shell in (("first", f"echo {shlex.quote(coa('valid 2ms', 'secret')['text'])}"), ("second", copied)):
        terms = config(f"command:{shlex.join(['sh', '-c', shell])}", queries=1, strategy="pike-b:no-iba")
        result = await engine.start(TASK, terms, tmp_path / name, wiring())
        assert result.improved == (name == "first")
    answers = [event.answer.text for event in events(tmp_path / "second") if isinstance(event, QueryAnswered)]
    assert answers == ["I found nothing."]


async def test_a_task_whose_file_changed_is_refused_before_its_code_runs(tmp_path: Path) -> None:
    file = tmp_path / "tiny.py"
    file.write_text("edited")
    task = replace(TASK, files=(TaskFile(str(file), "0" * 64),))
    loaded = list[object]()
    with pytest.raises(UserError, match="has changed"):
        await engine.start(task, config(), tmp_path / "run", wiring(load=loaded.append))
    assert not loaded and not (tmp_path / "run").exists()
