"""What a run reports: the finalists, measured again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from engine_material import IDEAS, MIXED, TASK, RuledJudge, coa, efa, events

from pike import engine
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.events import Compared
from pike.core.verdict.evaluation import (
    ON_SOME_VALUES,
    Effort,
    Evaluation,
    EvaluationRequest,
    OnStage,
    Status,
    WorstInputs,
)
from pike.engine.executors.instant import instant_verdict
from pike.engine.executors.recorded import RecordedExecutor


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


async def test_the_coldest_start_stands_beside_the_speedup(run, tmp_path: Path) -> None:
    class Costly(engine.InstantExecutor):
        """Finalists find what the compiler left, and hold more."""

        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            final = request.effort is Effort.FINAL
            seconds = (("build", 0.5), ("load", 0.25), ("first-call", 1.0 if final else 30.0), ("time", 9.0))
            verdict = await super().evaluate(request, on_stage)
            return replace(verdict, seconds=seconds, held_bytes=200 if final else 100)

    result = await run([IDEAS, coa("valid 5ms", "good")], queries=3, parts={"executor": Costly()})
    assert result.evaluation.cold_start_seconds == 1.75
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (written["cold_start_seconds"], written["held_bytes"]) == (30.75, 200)
    assert written["evaluation"]["cold_start_seconds"] == 1.75


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
    assert (written["cold_start_seconds"], written["held_bytes"]) == (None, None)
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
    def fickle(request: EvaluationRequest) -> Evaluation | None:
        fails = request.effort is Effort.FINAL and "coa 0" in request.source
        return Evaluation(Status.WRONG_OUTPUT, "differs on fresh data") if fails else None

    answers = [IDEAS, *[coa(f"valid {1 + i}ms", f"coa {i}") for i in range(5)]]
    result = await run(answers, queries=10, finalists=2, parts={"executor": RuledJudge(fickle)})
    statuses = [(finalist.evaluation.status, finalist.search_speedup) for finalist in result.finalists]
    assert statuses == [(Status.WRONG_OUTPUT, 10.0), (Status.VALID, 5.0), (Status.VALID, pytest.approx(10 / 3))]
    assert result.speedup == 5.0


async def test_when_every_finalist_fails_the_result_says_why(run) -> None:
    def strict(request: EvaluationRequest) -> Evaluation | None:
        return Evaluation(Status.WRONG_OUTPUT, "differs on fresh data") if request.effort is Effort.FINAL else None

    result = await run([IDEAS, coa("valid 2ms", "a")], queries=3, parts={"executor": RuledJudge(strict)})
    (note,) = (note for note in result.notes if "No finalist passed" in note)
    assert note.endswith("wrong-output: differs on fresh data")
    assert result.best is None


async def test_a_finalist_on_a_busy_machine_gets_a_second_measurement(run) -> None:
    finals = list[str]()

    def busy(request: EvaluationRequest) -> Evaluation | None:
        finals.extend([request.source] * (request.effort is Effort.FINAL))
        return Evaluation(Status.UNTRUSTED_TIMING, "the clocks disagree") if len(finals) == 1 else None

    result = await run([IDEAS, coa("valid 2ms", "a")], queries=3, parts={"executor": RuledJudge(busy)})
    assert result.speedup == 5.0
    assert len(finals) == 2


async def test_baselines_are_measured_beside_the_finalists_and_enter_no_library(run, tmp_path: Path) -> None:
    asked = list[tuple[Effort, bool]]()

    def watch(request: EvaluationRequest) -> Evaluation | None:
        is_baseline = "torch.compile" in request.source
        asked.append((request.effort, is_baseline))
        return None

    parts = {"executor": RuledJudge(watch)}
    result = await run(MIXED, queries=20, concurrency=3, baselines=("compile",), parts=parts)
    assert [one for one in asked if one[1]] == [(Effort.BESIDE, True)], "once, and not while searching"
    ((name, verdict),) = result.baselines
    assert name == "compile"
    assert len(result.finalists) == 3
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["baselines"]["compile"]["status"] == verdict.status.value
    assert (await engine.read_result(tmp_path / "run")).baselines == result.baselines, "the journal holds it"
    (compared,) = [event for event in events(tmp_path / "run") if isinstance(event, Compared)]
    recorded = RecordedExecutor(tmp_path / "run")
    again = await recorded.evaluate(EvaluationRequest(TASK, compared.source, effort=Effort.BESIDE))
    assert again == verdict, "a replay finds it"


async def test_a_baseline_that_does_not_exist_there_is_refused_before_anything_is_spent(run, tmp_path: Path) -> None:
    for name in ("compiel", "cuda-graph"):
        with pytest.raises(UserError, match=f"no baseline '{name}' on cpu; choose from eager, compile"):
            await run(MIXED, queries=20, baselines=(name,))
    assert not (tmp_path / "run" / "journal.sqlite").exists()


async def test_a_finalist_whose_gain_depends_on_the_values_is_ranked_by_its_least_gain(run) -> None:
    def fickle(request: EvaluationRequest) -> Evaluation | None:
        verdict = instant_verdict(request)
        if request.effort is Effort.SEARCH or "coa sharp" not in request.source or verdict.timing is None:
            return None
        worst = WorstInputs("small values", 1.5, (1.4, 1.6))
        return replace(verdict, timing=replace(verdict.timing, worst=worst), labels=(ON_SOME_VALUES,))

    answers = [IDEAS, coa("valid 1ms", "coa sharp"), coa("valid 5ms", "coa steady")]
    result = await run(answers, queries=10, finalists=2, parts={"executor": RuledJudge(fickle)})
    assert {finalist.evaluation.speedup for finalist in result.finalists} == {10.0, 2.0}
    assert result.speedup == 2.0


@pytest.mark.parametrize(("device", "fastest"), [("cpu", "valid 4ms"), ("cuda:0", "valid 2ms")])
async def test_a_busy_host_that_slows_the_original_does_not_choose_the_finalist_of_a_gpu(
    run, device: str, fastest: str
) -> None:
    class BusyHost(engine.InstantExecutor):
        """The original takes four times as long while the slower candidate is judged."""

        async def facts(self, device_wanted: str) -> DeviceFacts:
            return DeviceFacts(device, "a device")

        async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
            busy = "valid 4ms" in request.source and request.effort is not Effort.FINAL
            return instant_verdict(request, 40.0 if busy else 10.0)

    script = [IDEAS, coa("valid 4ms", "slower"), coa("valid 2ms", "faster")]
    result = await run(script, queries=3, finalists=1, parts={"executor": BusyHost()})
    assert result.best is not None and fastest in result.best.source
