"""Whole runs with a scripted model and the instant judge."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from engine_material import IDEAS, MIXED, TASK, coa, config, efa, entries, events, wiring, write_script

from pike import engine, report
from pike.core.agent import Context, Proposal
from pike.core.config import PromptConfig
from pike.core.errors import InfraError, ProviderError, StoreError, UserError
from pike.core.evaluation import Effort, Evaluation, EvaluationRequest, Status
from pike.core.events import (
    Admitted,
    Asked,
    Finished,
    Judged,
    Proposed,
    QueryAnswered,
    QuerySent,
    RunStarted,
    Stopped,
    Told,
)
from pike.core.step import Role
from pike.engine.executors import OnStage
from pike.engine.progress import Progress


async def test_a_run_spends_its_budget_and_reports_a_remeasured_winner(run, tmp_path: Path) -> None:
    result = await run(MIXED, queries=20, concurrency=3)
    assert result.finished
    assert (result.stopped, result.spend.queries) == ("queries", 20)
    assert result.best is not None
    finals = {finalist.candidate_id: finalist for finalist in result.finalists}
    assert len(finals) == 3
    best = finals[result.best.id]
    assert best.evaluation.speedup == max(f.evaluation.speedup or 0 for f in finals.values())
    assert best.search_speedup < max(f.search_speedup for f in finals.values()), "the luckiest is not the best"
    assert result.speedup == best.evaluation.speedup
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["speedup"] == result.speedup
    assert result.best.source in (tmp_path / "run" / "best.py").read_text()


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

    class Counting(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            sources.append(request.source)
            return await super().evaluate(request, on_stage)

    result = await run([IDEAS, coa("valid 4ms", "same")], queries=12, concurrency=4, parts={"executor": Counting()})
    assert result.candidates == 12
    assert len(sources) == 2, "once while searching, once as a finalist"


async def test_an_answer_without_code_is_a_parse_error_that_gets_fixed(run) -> None:
    answers = [IDEAS, {"role": "coa", "text": "I would rather not."}, efa("valid 2ms", "fixed")]
    result = await run(answers, queries=2, concurrency=1, strategy="pike-b")
    assert dict(result.counts) == {Status.PARSE_ERROR: 2} or dict(result.counts) == {
        Status.PARSE_ERROR: 1,
        Status.VALID: 1,
    }


async def test_without_any_valid_candidate_the_result_says_so(run, tmp_path: Path) -> None:
    result = await run([IDEAS, coa("wrong-output off", "a"), efa("timeout slow", "b")], queries=8)
    assert result.finished
    assert result.best is None
    assert result.speedup is None
    assert "No candidate was valid" in result.notes
    assert not (tmp_path / "run" / "best.py").exists()


async def test_the_original_stays_where_nothing_is_faster(run, tmp_path: Path) -> None:
    result = await run([IDEAS, coa("valid 20ms", "slow")], queries=3)
    assert (result.improved, result.speedup, result.best_path) == (False, 1.0, None)
    assert result.evaluation.speedup == 0.5
    assert not (tmp_path / "run" / "best.py").exists()
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (written["improved"], written["speedup"], written["speedup_ci95"]) == (False, 1.0, None)
    assert written["candidate_ms"] == written["reference_ms"]
    assert written["evaluation"]["speedup"] == 0.5


async def test_a_gain_of_the_search_that_vanishes_leaves_no_best_file(run, tmp_path: Path) -> None:
    class Sobering(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            if request.effort is Effort.FINAL:
                assert "valid 5ms" in request.source
                request = replace(request, source=request.source.replace("valid 5ms", "valid 11ms"))
            return await super().evaluate(request, on_stage)

    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "best.py").write_text("what an interrupted process wrote")
    result = await run([IDEAS, coa("valid 5ms", "flattered")], queries=3, parts={"executor": Sobering()})
    assert (result.finished, result.improved, result.speedup) == (True, False, 1.0)
    assert not (tmp_path / "run" / "best.py").exists()


async def test_a_finalist_that_fails_is_reported_and_the_next_one_taken(run) -> None:
    class Fickle(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            if request.effort is Effort.FINAL and "coa 0" in request.source:
                return Evaluation(Status.WRONG_OUTPUT, "differs on fresh data")
            return await super().evaluate(request, on_stage)

    answers = [IDEAS, *[coa(f"valid {1 + i}ms", f"coa {i}") for i in range(5)]]
    result = await run(answers, queries=10, finalists=2, parts={"executor": Fickle()})
    statuses = [(finalist.evaluation.status, finalist.search_speedup) for finalist in result.finalists]
    assert statuses == [(Status.WRONG_OUTPUT, 10.0), (Status.VALID, 5.0), (Status.VALID, pytest.approx(10 / 3))]
    assert result.speedup == 5.0


async def test_when_every_finalist_fails_the_result_says_why(run) -> None:
    class Strict(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            if request.effort is Effort.FINAL:
                return Evaluation(Status.WRONG_OUTPUT, "differs on fresh data")
            return await super().evaluate(request, on_stage)

    result = await run([IDEAS, coa("valid 2ms", "a")], queries=3, parts={"executor": Strict()})
    (note,) = (note for note in result.notes if "No finalist passed" in note)
    assert note.endswith("wrong-output: differs on fresh data")
    assert result.best is None


async def test_a_finalist_on_a_busy_machine_gets_a_second_measurement(run) -> None:
    finals = list[str]()

    class Busy(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            if request.effort is Effort.FINAL:
                finals.append(request.source)
                if len(finals) == 1:
                    return Evaluation(Status.UNTRUSTED_TIMING, "the clocks disagree")
            return await super().evaluate(request, on_stage)

    result = await run([IDEAS, coa("valid 2ms", "a")], queries=3, parts={"executor": Busy()})
    assert result.speedup == 5.0
    assert len(finals) == 2


async def test_the_judge_is_told_what_there_is_to_beat_while_searching(run) -> None:
    beaten = list[tuple[Effort, float]]()

    class Listening(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            beaten.append((request.effort, request.beat))
            return await super().evaluate(request, on_stage)

    answers = [IDEAS, coa("valid 5ms", "a"), coa("valid 2ms", "b"), coa("valid 8ms", "c")]
    await run(answers, queries=4, concurrency=1, parts={"executor": Listening()})
    searching = [beat for effort, beat in beaten if effort is Effort.SEARCH]
    assert (searching[0], searching[-1]) == (0.0, 5.0)
    assert searching == sorted(searching)
    assert {beat for effort, beat in beaten if effort is Effort.FINAL} == {0.0}


async def test_the_money_budget_stops_asking_and_is_never_exceeded(run) -> None:
    price = {"input_usd_per_mtok": 0.0, "output_usd_per_mtok": 10.0}
    answers = [IDEAS, *[coa(f"valid {2 + i}ms", f"{i}", output_tokens=32_000) for i in range(6)]]
    result = await run(answers, queries=50, concurrency=4, usd=2.0, script=price)
    assert result.stopped == "money"
    assert result.finished
    assert 1.6 < result.spend.usd <= 2.0
    assert result.best is not None


async def test_hours_stop_asking(run) -> None:
    result = await run(MIXED, queries=50, max_hours=0.0)
    assert (result.stopped, result.finished, result.candidates) == ("hours", True, 0)


async def test_a_refused_key_stops_with_one_sentence_before_anything_is_written(tmp_path: Path) -> None:
    name = write_script(tmp_path / "s.json", [{"text": "x"}], unpriced=True)
    with pytest.raises(UserError, match="price"):
        await engine.start(TASK, config(name, usd=1.0), tmp_path / "run", wiring())
    assert not (tmp_path / "run").exists()


async def test_a_key_refused_in_the_middle_stops_the_run_and_it_can_be_resumed(run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="refused the key"):
        await run([IDEAS, coa("valid 5ms", "a"), {"step": 4, "errors": [401]}], queries=10)
    write_script(tmp_path / "run.json", [IDEAS, coa("valid 5ms", "a")])
    result = await engine.resume_run(tmp_path / "run", wiring())
    assert (result.finished, result.spend.queries) == (True, 10)


async def test_a_provider_that_is_down_costs_few_queries_and_the_run_can_be_resumed(run, tmp_path: Path) -> None:
    down = [IDEAS, coa("valid 5ms", "a"), *[{"step": step, "errors": [400]} for step in range(3, 40)]]
    result = await run(down, queries=30)
    assert (result.finished, result.stopped) == (False, "provider")
    assert result.spend.queries < 8
    assert "pike resume" in result.resume_command
    assert result.best is not None
    assert "NOT measured again" in (tmp_path / "run" / "best.py").read_text()
    write_script(tmp_path / "run.json", [IDEAS, coa("valid 5ms", "a")])
    result = await engine.resume_run(tmp_path / "run", wiring())
    assert (result.finished, result.spend.queries) == (True, 30)


async def test_a_single_failure_closes_its_step_and_the_run_goes_on(run, tmp_path: Path) -> None:
    result = await run([IDEAS, coa("valid 5ms", "a"), {"step": 4, "errors": [400]}], queries=10)
    assert result.finished
    assert result.candidates == 9
    told = [event for event in events(tmp_path / "run") if isinstance(event, Told) and event.failure]
    assert [event.step_id for event in told] == [4]


async def test_an_unusable_list_of_ideas_does_not_end_the_run(run) -> None:
    result = await run([{"role": "iba", "text": ""}, coa("valid 5ms", "a")], queries=5)
    assert (result.finished, result.candidates) == (True, 5)


async def test_judges_that_fail_stop_the_run_and_keep_the_candidate(run, tmp_path: Path) -> None:
    class Broken(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            return Evaluation(Status.INFRA_ERROR, "no GPU")

    answers = [IDEAS, *[coa(f"valid {2 + i}ms", f"{i}") for i in range(9)]]
    result = await run(answers, queries=20, parts={"executor": Broken()})
    assert (result.finished, result.stopped) == (False, "infra")
    paid = result.spend.queries
    result = await engine.resume_run(tmp_path / "run", wiring())
    assert result.finished
    assert result.best is not None
    asked_again = [e.query.step_id for e in events(tmp_path / "run") if isinstance(e, QuerySent)]
    assert len(asked_again) == len(set(asked_again)), "what was paid before the outage is not asked again"
    assert paid < 20


async def test_a_judge_that_cannot_use_the_task_ends_the_run_with_the_reason(run) -> None:
    class Refusing(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            raise UserError("Task 'x' does not define Model")

    with pytest.raises(UserError, match="does not define Model"):
        await run(MIXED, parts={"executor": Refusing()})


async def test_no_judge_at_all_is_said_before_anything_is_written(run, tmp_path: Path) -> None:
    class Absent(engine.InstantExecutor):
        async def facts(self, device: str):
            raise InfraError("the judge process ended with code 1")

    with pytest.raises(InfraError):
        await run(MIXED, parts={"executor": Absent()})
    assert not (tmp_path / "run").exists()


async def test_an_unreachable_provider_is_said_at_the_start(tmp_path: Path) -> None:
    from pike.llm.replay import ReplayClient

    class Unreachable(ReplayClient):
        async def check(self) -> None:
            raise ProviderError("no route to host", transient=True)

    parts = wiring(connect=lambda name, _config: Unreachable(name, {}))
    with pytest.raises(ProviderError, match="no route"):
        await engine.start(TASK, config("scripted:x"), tmp_path / "run", parts)


async def test_a_full_disk_stops_clearly_and_the_run_can_be_resumed(run, tmp_path: Path, monkeypatch) -> None:
    from pike import store

    real, left = store.Journal.append, [25]

    def append(self, *new, durable=True):
        left[0] -= 1
        if left[0] < 0:
            raise StoreError("The disk is full")
        return real(self, *new, durable=durable)

    monkeypatch.setattr(store.Journal, "append", append)
    with pytest.raises(StoreError, match=r"disk is full\. What was written is safe; continue with: pike resume"):
        await run(MIXED, queries=20, concurrency=3)
    monkeypatch.undo()
    result = await engine.resume_run(tmp_path / "run", wiring())
    assert (result.finished, result.spend.queries) == (True, 20)


async def test_an_agent_with_nothing_more_to_offer_ends_the_search(tmp_path: Path) -> None:
    class Three:
        async def act(self, context: Context) -> Proposal:
            if context.step.role is Role.BRAINSTORM:
                return Proposal()
            if len(context.known) >= 3:
                return Proposal(failure="nothing left to try", exhausted=True)
            return Proposal(f"# pike-instant: valid {9 - len(context.known)}ms\nclass ModelNew: ...", author="three")

    agents = dict.fromkeys(Role, Three())
    result = await engine.start(TASK, config(queries=50), tmp_path / "run", wiring(agents=agents))
    assert (result.stopped, result.finished, result.candidates) == ("exhausted", True, 3)
    seen = entries(tmp_path / "run")
    (stop,) = (i for i, entry in enumerate(seen) if isinstance(entry.event, Stopped))
    assert isinstance(seen[stop - 1].event, Told)
    assert seen[stop - 1].at_seconds == seen[stop].at_seconds, "both or neither survive a crash"


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


SOURCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, width, 3)
        self.norm = torch.nn.BatchNorm2d(width)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))

def get_inputs():
    return [torch.randn(1, 3, 8, 8)]

def get_init_inputs():
    return [4]
"""


async def test_recipes_need_no_model_and_the_best_file_says_how_to_build_it(tmp_path: Path) -> None:
    from pike.engine import bestfile, originals

    task = replace(TASK, source=SOURCE)
    parts = wiring(load=originals.load)
    result = await engine.start(task, config(queries=12, concurrency=4), tmp_path / "run", parts)
    assert result.finished
    assert result.best is not None
    assert result.best.recipes
    assert len({event.candidate.recipes for event in events(tmp_path / "run") if isinstance(event, Proposed)}) > 5
    terms = bestfile.read(tmp_path / "run" / "best.py")
    assert terms.call == "(float32[1, 3, 8, 8])"
    assert terms.arguments() == (4,)
    assert terms.dtypes == "float32, int64"


async def test_the_strategy_of_recipes_costs_no_query_and_says_what_each_step_brought(tmp_path: Path) -> None:
    from pike.engine import originals

    task = replace(TASK, source=SOURCE)
    parts = wiring(load=originals.load)
    setup = config(queries=0, concurrency=3, strategy="recipes")
    result = await engine.start(task, setup, tmp_path / "run", parts)
    assert (result.finished, result.stopped, result.spend.queries) == (True, "exhausted", 0)
    tried = [one.recipes for one in result.trail]
    assert len(set(tried)) == len(tried) == result.candidates > 5
    gains = [one.gained for one in result.trail if one.gained]
    best = max(one.speedup or 0.0 for one in result.trail)
    assert math.prod(gains) == pytest.approx(best)
    assert dict(result.declined)["cuda_graph"] == "CUDA graphs need an NVIDIA GPU"
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert [tuple(one["recipes"]) for one in written["trail"]] == tried
    assert "does not apply: CUDA graphs need" in report.write(tmp_path / "run").read_text()
    again = await engine.resume_run(tmp_path / "run", parts)
    assert (again.trail, again.declined) == (result.trail, result.declined)


async def test_the_strategy_of_recipes_ends_in_time_and_lets_go_of_what_is_being_judged(tmp_path: Path) -> None:
    class Composer:
        async def act(self, context: Context) -> Proposal:
            if context.step.role is Role.BRAINSTORM:
                return Proposal(ideas=("half", "compile"), text="tf32: no")
            source = f"# pike-instant: valid 5ms\n# step {context.step.id}\nclass ModelNew: ..."
            return Proposal(source, recipes=("half", f"number {context.step.id}"))

    class Stuck(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            assert request.options.timeout_seconds == (60.0 if request.effort is Effort.SEARCH else 900.0)
            if request.effort is Effort.SEARCH and "# step 1\n" not in request.source:
                await asyncio.sleep(3600.0)
            return await super().evaluate(request, on_stage)

    setup = config(queries=0, concurrency=3, strategy="recipes", max_hours=1.0 / 3600.0)
    parts = wiring(executor=Stuck(), agents=dict.fromkeys(Role, Composer()))
    result = await engine.start(TASK, setup, tmp_path / "run", parts)
    assert (result.finished, result.stopped, result.spend.queries) == (True, "hours", 0)
    stuck = [event.failure for event in events(tmp_path / "run") if isinstance(event, Told) and event.failure]
    assert stuck == ["the time was over before its verdict"] * 3
    assert (result.best.id, result.declined) == ("c1", (("tf32", "no"),))
    replayed = config(f"replay:{tmp_path / 'run'}", queries=0, strategy="recipes")
    again = await engine.start(TASK, replayed, tmp_path / "again", wiring(executor=None))
    assert (again.best, again.trail) == (result.best, result.trail)


async def test_without_a_valid_candidate_what_is_being_judged_comes_home(tmp_path: Path) -> None:
    class Composer:
        async def act(self, context: Context) -> Proposal:
            source = f"# pike-instant: valid {5 + context.step.id}ms\nclass ModelNew: ..."
            return Proposal(source, recipes=(f"number {context.step.id}",))

    setup = config(queries=0, concurrency=2, strategy="recipes", max_hours=0.2 / 3600.0)
    parts = wiring(executor=engine.InstantExecutor(delay_seconds=1.0), agents=dict.fromkeys(Role, Composer()))
    result = await engine.start(TASK, setup, tmp_path / "run", parts)
    assert (result.finished, result.stopped) == (True, "hours")
    assert result.best is not None


async def test_valid_recipes_seed_the_library_free_of_queries(run, tmp_path: Path) -> None:
    from pike.engine import originals

    name = write_script(tmp_path / "s.json", [IDEAS, coa("valid 5ms", "a")])
    setup = config(name, queries=6, models={"seed_recipes": True})
    task = replace(TASK, source=SOURCE)
    parts = wiring(load=originals.load)
    result = await engine.start(task, setup, tmp_path / "run", parts)
    seen = events(tmp_path / "run")
    seeds = [event for event in seen if isinstance(event, Admitted)]
    assert seeds
    assert all(seed.evaluation.valid and seed.candidate.id.startswith("r-") for seed in seeds)
    assert len({seed.candidate.id for seed in seeds}) == len(seeds)
    first_ask = next(i for i, event in enumerate(seen) if isinstance(event, Asked))
    assert max(i for i, event in enumerate(seen) if isinstance(event, Admitted)) < first_ask
    assert result.spend.queries == 6
    asked_from = {event.step.seed for event in seen if isinstance(event, Asked)}
    assert asked_from & {seed.candidate.id for seed in seeds}

    again = await engine.start(
        task, config(f"replay:{tmp_path / 'run'}", queries=6), tmp_path / "again", wiring(executor=None)
    )
    assert (again.best, again.finished) == (result.best, True)


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
