"""Plan, code and debug through the real engine: what each brings, and what drift costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_material import TASK, config, events, wiring, write_script
from stark_material import TinyStark, code, debug, drifted_code, drifted_plan, plan

from pike import engine, search
from pike.core.events import Asked, Judged, Proposed, QuerySent, Told
from pike.core.step import Role
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest, OnStage, Status
from pike.engine.state.progress import Progress

SCRIPT = [
    plan(),
    drifted_plan(step=2),
    code("valid 8ms"),
    drifted_code(step=4),
    code("build-error boom", step=7),
    debug("valid 4ms", step=5),
    debug("valid 2ms", "again", step=8),
]
"""0 plan, 1 code; 2 plan drifted; 3 plan, 4 code drifted, 5 debug; 6 plan, 7 code fails to build, 8 debug."""


class Counting(engine.InstantExecutor):
    """Remembers what it was asked to judge."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        self.sources.append(request.source)
        return await super().evaluate(request, on_stage)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run is made with the tiny strategy."""
    monkeypatch.setattr(search, "make", lambda _config, budget, _seed: TinyStark(budget.queries))


async def stark(folder: Path, queries: int = 9, **parts: Any) -> engine.RunResult:
    name = write_script(folder.parent / f"{folder.name}.json", SCRIPT)
    return await engine.start(TASK, config(name, queries=queries), folder, wiring(**parts))


async def test_plans_are_carried_out_and_what_failed_is_debugged(tmp_path: Path) -> None:
    result = await stark(tmp_path / "run")
    assert result.finished
    assert result.speedup == pytest.approx(5.0)
    steps = {event.step.id: event.step for event in events(tmp_path / "run") if isinstance(event, Asked)}
    assert [step.role.value for step in steps.values()] == [
        "plan",
        "code",
        "plan",
        "plan",
        "code",
        "debug",
        "plan",
        "code",
        "debug",
    ]
    assert steps[1].seed == "original"
    assert steps[3].seed == "c1"
    assert "class ModelNew: ..." in steps[1].plan
    assert "<<<IMPROVE BEGINS>>>" in steps[8].plan
    proposed = {event.step_id: event.candidate for event in events(tmp_path / "run") if isinstance(event, Proposed)}
    assert proposed[1].plan == steps[1].plan
    assert "<<<" not in proposed[1].source
    assert "Fuse it." in proposed[1].note


async def test_a_drifted_plan_closes_its_step_without_one(tmp_path: Path) -> None:
    await stark(tmp_path / "run")
    told = {event.step_id: event for event in events(tmp_path / "run") if isinstance(event, Told)}
    assert told[0].text
    assert not told[0].failure
    assert told[2].text == ""
    assert told[2].failure.startswith("the plan does not match the file it was made for")
    assert told[2].candidate_id is None


async def test_a_drifted_child_is_refused_before_any_judge_sees_it(tmp_path: Path) -> None:
    counting = Counting()
    await stark(tmp_path / "run", executor=counting)
    verdicts = {e.candidate_id: e.evaluation for e in events(tmp_path / "run") if isinstance(e, Judged)}
    assert verdicts["c4"].status is Status.PARSE_ERROR
    assert verdicts["c4"].reason.startswith("anchor drift: outside the anchors")
    assert not any("class  ModelNew" in source for source in counting.sources)
    assert verdicts["c5"].status is Status.VALID
    assert verdicts["c7"].status is Status.BUILD_ERROR


async def test_each_role_is_asked_in_its_own_words_about_what_is_known(tmp_path: Path) -> None:
    await stark(tmp_path / "run")
    sent = {event.query.step_id: event.query for event in events(tmp_path / "run") if isinstance(event, QuerySent)}
    assert sent[0].prompt.startswith("# Plan the next change")
    assert sent[1].prompt.startswith("# Carry out a plan")
    assert sent[5].prompt.startswith("# Repair a planned change")
    assert [sent[number].temperature for number in (0, 1, 5)] == [0.8, 0.1, 0.1]
    assert "reason: anchor drift" in sent[5].prompt
    assert "## The file to improve: c1" in sent[3].prompt
    window = sent[6].prompt.partition("## Other candidates")[2]
    assert "### c4, made from c1" in window
    assert "anchor drift" in window
    assert "### c5" not in window, "the file to improve is shown already"


async def test_a_resumed_run_asks_nothing_twice(tmp_path: Path) -> None:
    shown: list[str] = []

    class Dying(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            if "again" in request.source:
                raise RuntimeError("power cut")
            return await super().evaluate(request, on_stage)

    with pytest.raises(RuntimeError, match="power cut"):
        await stark(tmp_path / "run", executor=Dying())
    result = await engine.resume_run(
        tmp_path / "run", wiring(observer=lambda progress: shown.extend(a.doing for a in progress.active))
    )
    assert result.finished
    assert result.speedup == pytest.approx(5.0)
    sent = [event.query.step_id for event in events(tmp_path / "run") if isinstance(event, QuerySent)]
    assert sorted(sent) == list(range(9))
    assert "planning" not in shown


async def test_a_replay_plans_and_codes_the_same(tmp_path: Path) -> None:
    first = await stark(tmp_path / "run")
    again = await engine.start(
        TASK, config(f"replay:{tmp_path / 'run'}", queries=9), tmp_path / "again", wiring(executor=None)
    )
    assert (again.best, again.speedup) == (first.best, first.speedup)
    kinds = (Asked, Told, Proposed)
    recorded, repeated = (
        [event for event in events(tmp_path / name) if isinstance(event, kinds)] for name in ("run", "again")
    )
    assert repeated == recorded


async def test_progress_speaks_of_plans(tmp_path: Path) -> None:
    lines, doing = set[str](), set[str]()

    def observer(progress: Progress) -> None:
        lines.update(progress.events)
        doing.update(activity.doing for activity in progress.active)

    await stark(tmp_path / "run", observer=observer)
    assert {"c0: a plan for original", "c0: planned", "c1: carries out a plan for original", "c5: fix 1 of c4"} <= lines
    assert {"planning", "asking", "fixing"} <= doing


async def test_a_result_names_the_models_of_the_roles_that_were_asked(tmp_path: Path) -> None:
    result = await stark(tmp_path / "run")
    assert {role for role, _ in result.models} == {Role.PLAN, Role.CODE, Role.DEBUG}
    assert set(result.flat()["models"]) == {"plan", "code", "debug"}
