"""How a limit of time is divided between the search and its finalists."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from engine_material import TASK, config, events, wiring

from pike import engine
from pike.core.agent import Context, Proposal
from pike.core.device import DeviceFacts
from pike.core.events import Judged, Proposed, RunStarted, Told
from pike.core.step import Candidate, Role, Step
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest, OnStage, Status, Timing
from pike.engine.state import timetable
from pike.engine.state.run_state import RunState
from pike.engine.state.timetable import Timetable, kept_seconds


def judged(state: RunState, id_: str, seconds: float, contention: float = 0.0, effort: Effort = Effort.SEARCH) -> None:
    timing = Timing(2.0, 1.0, 2.0, (1.9, 2.1), 10, 100, 0.0, contention=contention)
    verdict = Evaluation(
        Status.VALID,
        timing=timing,
        seconds=(("correct", seconds), ("time", 7.0), ("lock-wait", 99.0), ("first-call", seconds)),
    )
    if effort is Effort.SEARCH:
        state.apply(Proposed(0, Candidate(id_, f"# {id_}")))
    state.apply(Judged(id_, verdict, effort))


def begun(minutes: float | None, llm: str = "none") -> RunState:
    from pike.core.events import Asked

    state, hours = RunState(), None if minutes is None else minutes / 60
    setup = replace(config(llm, max_hours=hours), evaluate=EvaluateOptions(max_timing_seconds=20.0))
    state.apply(RunStarted(TASK, setup, DeviceFacts("cpu", "cpu"), "1"))
    state.apply(Asked(Step(0, Role.OPTIMISE)))
    return state


def test_a_short_run_keeps_a_third_and_a_long_one_what_its_finalists_take() -> None:
    state = begun(minutes=1.2)
    assert kept_seconds(state) == pytest.approx(24.0)
    assert Timetable(state, lambda: 40.0).search_seconds_left == pytest.approx(8.0)
    assert Timetable(state, lambda: 50.0).search_seconds_left == 0.0
    longer = begun(minutes=10)
    for number in range(3):
        judged(longer, f"c{number}", seconds=4.0)
    assert kept_seconds(longer) == pytest.approx(10.0 + 3 * 4.0 + 2 * 26.0), "three in the same sessions"
    assert Timetable(begun(None), lambda: 0.0).search_seconds_left is None


def test_what_is_kept_follows_the_pace_of_the_run() -> None:
    calm, crowded = begun(minutes=30), begun(minutes=30)
    judged(calm, "c0", seconds=4.0)
    judged(crowded, "c0", seconds=4.0, contention=0.9)
    assert kept_seconds(crowded) > 2 * kept_seconds(calm)


def test_finalists_are_timed_more_briefly_or_left_out_where_the_time_is_short() -> None:
    state = begun(minutes=2)
    judged(state, "c0", seconds=5.0)
    calm = Timetable(state, lambda: 60.0).final_plan(3)
    assert (calm[0], calm[1].max_timing_seconds) == (3, 20.0)
    late = Timetable(state, lambda: 120.0).final_plan(3)
    assert (late[0], late[1].max_timing_seconds) == (3, pytest.approx((45.0 - 10.0 - 15.0) / 1.3 / 2))
    later = Timetable(state, lambda: 140.0).final_plan(3)
    assert (later[0], later[1].max_timing_seconds) == (1, pytest.approx((25.0 - 10.0 - 5.0) / 1.3))
    over = Timetable(state, lambda: 500.0).final_plan(3)
    assert (over[0], over[1].max_timing_seconds) == (0, 3.0)


def test_what_models_were_paid_for_is_measured_in_full() -> None:
    state = begun(minutes=2, llm="scripted:x")
    assert Timetable(state, lambda: 500.0).final_plan(3)[1].max_timing_seconds == 20.0
    assert Timetable(state, lambda: 500.0).final_seconds_left is None


class Composer:
    """Proposes a new composition for every step."""

    async def act(self, context: Context) -> Proposal:
        if context.step.role is Role.BRAINSTORM:
            return Proposal(ideas=("half", "compile"))
        source = f"# pike-instant: valid {5 + context.step.id}ms\n# step {context.step.id}\nclass ModelNew: ..."
        return Proposal(source, recipes=(f"number {context.step.id}",))


async def test_finalists_for_which_no_time_is_left_are_not_measured(tmp_path: Path, monkeypatch) -> None:
    class Slow(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            await asyncio.sleep(3600.0 if "# step 2\n" in request.source and request.effort is Effort.FINAL else 0.3)
            return await super().evaluate(request, on_stage)

    monkeypatch.setattr(timetable, "LATEST_SECONDS", 0.5)
    setup = config(queries=0, concurrency=2, strategy="recipes", max_hours=1.5 / 3600.0)
    parts = wiring(executor=Slow(), agents=dict.fromkeys(Role, Composer()))
    result = await asyncio.wait_for(engine.start(TASK, setup, tmp_path / "run", parts), 20.0)
    assert (result.finished, result.best and result.best.id) == (True, "c1")
    finals = [event for event in events(tmp_path / "run") if isinstance(event, Judged) and event.effort is Effort.FINAL]
    assert len(finals) == 1
    assert result.notes == ("There was time to measure 1 finalist again",)


async def test_a_search_without_a_valid_candidate_gives_up_at_last(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(timetable, "PATIENCE_SECONDS", 0.5)
    setup = config(queries=0, concurrency=2, strategy="recipes", max_hours=0.5 / 3600.0)
    parts = wiring(executor=engine.InstantExecutor(delay_seconds=3600.0), agents=dict.fromkeys(Role, Composer()))
    result = await asyncio.wait_for(engine.start(TASK, setup, tmp_path / "run", parts), 20.0)
    assert (result.finished, result.stopped, result.best) == (True, "hours", None)
    told = [event.failure for event in events(tmp_path / "run") if isinstance(event, Told)]
    assert "the time was over before its verdict" in told
