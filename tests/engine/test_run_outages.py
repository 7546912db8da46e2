"""Providers, judges and disks that fail in a run, and what a resume makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_material import IDEAS, MIXED, TASK, RuledJudge, coa, config, events, wiring, write_script

from pike import engine
from pike.api.outputs import report
from pike.core.errors import InfraError, ProviderError, StoreError, UserError
from pike.core.events import QuerySent, Told
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest, Status
from pike.llm.fake_server import FakeReply, FakeServer


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
    used, seen = (await engine.read_result(tmp_path / "run")).seconds, list[engine.Progress]()
    result = await engine.resume_run(tmp_path / "run", wiring(observer=seen.append))
    assert (result.finished, result.spend.queries) == (True, 30)
    assert {one.earlier_seconds for one in seen} == {used} and used > 0.0, "its limit of time goes on"


async def test_a_server_of_ones_own_that_refuses_every_prompt_is_not_said_to_have_charged(tmp_path: Path) -> None:
    message = "request (1397 tokens) exceeds the available context size (1024 tokens), try increasing it"
    with FakeServer(default=FakeReply(status=400, message=message, delay_seconds=0.1)) as server:
        setup = config(f"openai:fake-model@{server.url}", 8, 8, strategy="best-of-n")
        result = await engine.start(TASK, setup, tmp_path / "run", wiring())
    assert (result.stopped, result.spend.usd, result.spend.unpriced) == ("provider", 0.0, 0)
    assert result.uncertain.calls > 0
    page = report(tmp_path / "run").read_text()
    assert any("sent, and no answer was recorded" in note for note in result.notes)
    assert "sent without an outcome in the journal." in page and "prompt.most_tokens" in page
    assert not any("charged" in note for note in result.notes)


async def test_a_single_failure_closes_its_step_and_the_run_goes_on(run, tmp_path: Path) -> None:
    result = await run([IDEAS, coa("valid 5ms", "a"), {"step": 4, "errors": [400]}], queries=10)
    assert result.finished
    assert result.candidates == 9
    told = [event for event in events(tmp_path / "run") if isinstance(event, Told) and event.failure]
    assert [event.step_id for event in told] == [4]


async def test_judges_that_fail_stop_the_run_and_keep_the_candidate(run, tmp_path: Path) -> None:
    answers = [IDEAS, *[coa(f"valid {2 + i}ms", f"{i}") for i in range(9)]]
    result = await run(
        answers, queries=20, parts={"executor": RuledJudge(lambda _: Evaluation(Status.INFRA_ERROR, "no GPU"))}
    )
    assert (result.finished, result.stopped) == (False, "infra")
    paid = result.spend.queries
    result = await engine.resume_run(tmp_path / "run", wiring())
    assert result.finished
    assert result.best is not None
    asked_again = [e.query.step_id for e in events(tmp_path / "run") if isinstance(e, QuerySent)]
    assert len(asked_again) == len(set(asked_again)), "what was paid before the outage is not asked again"
    assert paid < 20


async def test_a_judge_that_cannot_use_the_task_ends_the_run_with_the_reason(run) -> None:
    def refuse(request: EvaluationRequest) -> None:
        raise UserError("Task 'x' does not define Model")

    with pytest.raises(UserError, match="does not define Model"):
        await run(MIXED, parts={"executor": RuledJudge(refuse)})


async def test_no_judge_at_all_is_said_before_anything_is_written(run, tmp_path: Path) -> None:
    class Absent(engine.InstantExecutor):
        async def facts(self, device: str):
            raise InfraError("the judge process ended with code 1")

    with pytest.raises(InfraError):
        await run(MIXED, parts={"executor": Absent()})
    assert not (tmp_path / "run").exists()


async def test_an_unreachable_provider_is_said_at_the_start(tmp_path: Path) -> None:
    from pike.llm.given import ReplayClient

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
    with pytest.raises(
        StoreError,
        match=r"disk is full\. (\d answers? in flight could not be kept: a resume asks again\. )?What was written is safe; continue with: pike resume",
    ):
        await run(MIXED, queries=20, concurrency=3)
    monkeypatch.undo()
    result = await engine.resume_run(tmp_path / "run", wiring())
    assert (result.finished, result.spend.queries) == (True, 20)
