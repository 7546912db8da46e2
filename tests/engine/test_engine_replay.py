"""A finished run again, without any model: the same decisions."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from engine_material import IDEAS, MIXED, TASK, coa, config, efa, events, wiring

from pike import engine
from pike.core.agent import Context, Proposal
from pike.core.errors import UserError
from pike.core.events import Asked, Event, Judged, QuerySent, Told
from pike.core.settings.config import LlmConfig
from pike.core.step import Role
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest, OnStage


class Uneven(engine.InstantExecutor):
    """Verdicts come back in another order than candidates went in."""

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        self._delay_seconds = (len(request.source) * 7 + sum(map(ord, request.source))) % 5 / 500
        return await super().evaluate(request, on_stage)


def decisions(folder: Path) -> list[Event]:
    return [event for event in events(folder) if isinstance(event, Asked | Told | Judged)]


def replay_of(folder: Path, **more: object):
    return config(f"replay:{folder}", **more)  # type: ignore[arg-type]


async def replayed(folder: Path, into: Path, queries: int = 20, concurrency: int = 4) -> engine.RunResult:
    # No executor is given: the recorded verdicts are used.
    return await engine.start(
        TASK, replay_of(folder, queries=queries, concurrency=concurrency), into, wiring(executor=None)
    )


@pytest.mark.parametrize("concurrency", [1, 6])
async def test_the_same_decisions_in_the_same_order(run, tmp_path: Path, concurrency: int) -> None:
    first = await run(MIXED, queries=20, concurrency=concurrency, parts={"executor": Uneven()})
    again = await replayed(tmp_path / "run", tmp_path / "again", concurrency=2)
    order = [event for event in decisions(tmp_path / "run") if not isinstance(event, Judged)]
    assert [event for event in decisions(tmp_path / "again") if not isinstance(event, Judged)] == order
    assert sorted(map(str, decisions(tmp_path / "again"))) == sorted(map(str, decisions(tmp_path / "run")))
    assert (again.best, again.speedup, again.stopped) == (first.best, first.speedup, first.stopped)
    assert again.finished


async def test_failures_of_the_provider_are_repeated_too(run, tmp_path: Path) -> None:
    answers = [IDEAS, coa("valid 5ms", "a"), *[{"step": step, "errors": [400]} for step in (3, 4, 5)]]
    await run(answers, queries=12, concurrency=3)
    again = await replayed(tmp_path / "run", tmp_path / "again", queries=12)
    assert again.finished
    assert again.candidates == 9


async def test_a_run_without_a_model_is_replayed_from_its_proposals(tmp_path: Path) -> None:
    class Recipes:
        async def act(self, context: Context) -> Proposal:
            if context.step.role is Role.BRAINSTORM:
                return Proposal()
            if context.step.id > 6:
                return Proposal(failure="nothing left to try", exhausted=True)
            return Proposal(f"# pike-instant: valid {9 - context.step.id}ms", author="me", recipes=("half", "compile"))

    agents = dict.fromkeys(Role, Recipes())
    first = await engine.start(TASK, config(), tmp_path / "run", wiring(agents=agents))
    again = await replayed(tmp_path / "run", tmp_path / "again")
    assert (again.best, again.stopped, again.finished) == (first.best, "exhausted", True)
    assert decisions(tmp_path / "again") == decisions(tmp_path / "run")


async def test_a_replay_of_a_replay(run, tmp_path: Path) -> None:
    await run(MIXED, queries=10, concurrency=3)
    await replayed(tmp_path / "run", tmp_path / "two", queries=10)
    third = await replayed(tmp_path / "two", tmp_path / "three", queries=10)
    assert third.finished
    assert decisions(tmp_path / "three") == decisions(tmp_path / "two")


async def test_answers_only_judged_anew(run, tmp_path: Path) -> None:
    await run([IDEAS, coa("valid 5ms", "a"), efa("valid 2ms", "b")], queries=8)
    setup = replay_of(tmp_path / "run", queries=8)
    setup = replace(setup, llm=replace(setup.llm, replay_verdicts=False))
    slower = engine.InstantExecutor(reference_ms=20.0)
    again = await engine.start(TASK, setup, tmp_path / "again", wiring(executor=slower))
    assert again.speedup == 4.0
    assert not any(isinstance(event, QuerySent) and "scripted" in event.model for event in events(tmp_path / "again"))


@pytest.mark.parametrize(
    ("change", "said"),
    [({"queries": 21}, "query budget"), ({"run_seed": 9}, "run seed"), ({"strategy": "pike-b:no-efa"}, "strategy")],
)
async def test_another_configuration_is_refused(run, tmp_path: Path, change: dict[str, object], said: str) -> None:
    await run(MIXED, queries=5)
    setup = replay_of(tmp_path / "run", **{"queries": 5, **change})
    with pytest.raises(UserError, match=said):
        await engine.start(TASK, setup, tmp_path / "again", wiring(executor=None))


async def test_an_interrupted_replay_can_be_resumed(run, tmp_path: Path, monkeypatch) -> None:
    from pike import store
    from pike.core.errors import StoreError

    first = await run(MIXED, queries=20, concurrency=5, parts={"executor": Uneven()})
    real, left = store.Journal.append, [33]

    def append(self, *new, durable=True):
        left[0] -= 1
        if left[0] < 0:
            raise StoreError("The disk is full")
        return real(self, *new, durable=durable)

    monkeypatch.setattr(store.Journal, "append", append)
    with pytest.raises(StoreError):
        await replayed(tmp_path / "run", tmp_path / "again")
    monkeypatch.undo()
    again = await engine.resume_run(tmp_path / "again", wiring(executor=None))
    assert (again.finished, again.best, again.speedup) == (True, first.best, first.speedup)
    order = [event for event in decisions(tmp_path / "run") if not isinstance(event, Judged)]
    assert [event for event in decisions(tmp_path / "again") if not isinstance(event, Judged)] == order


async def test_a_finished_replay_is_read_where_what_it_replayed_is_gone(run, tmp_path: Path) -> None:
    await run(MIXED, queries=5)
    first = await replayed(tmp_path / "run", tmp_path / "again", queries=5)
    shutil.rmtree(tmp_path / "run")
    assert (await engine.resume_run(tmp_path / "again", wiring())).best == first.best


async def test_one_role_cannot_replay_a_run(run, tmp_path: Path) -> None:
    models = LlmConfig(coa=f"replay:{tmp_path}", efa="none")
    with pytest.raises(UserError, match="every role"):
        await engine.start(TASK, replace(config(), llm=models), tmp_path / "again", wiring())


async def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run"):
        await replayed(tmp_path / "nothing", tmp_path / "again")
