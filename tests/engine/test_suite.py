"""Contenders on many tasks, with workers that answer at once: what is kept, not repeated, lost, and in which order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from campaign_material import begin, layer
from engine_material import coa, write_script
from suite_material import CONFIG, FACTS, H100, Workers, folder_of_tasks, measure, planned, survey_of

from pike import store
from pike.core.comparison.contender import ContenderKind
from pike.core.comparison.results import Result, digest
from pike.core.errors import InfraError, StoreError, UserError
from pike.core.settings.config import LlmConfig
from pike.core.settings.merging import merge
from pike.core.verdict.evaluation import Effort, Evaluation, EvaluationRequest, Precision, Status
from pike.engine.executors.instant import instant_verdict
from pike.engine.schedule.suite import worker_count
from pike.reporting.results import tables

BOTH = (Precision.SAME, Precision.HALF)


@pytest.fixture
def made(tmp_path: Path) -> str:
    return folder_of_tasks(tmp_path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_every_result_says_what_was_measured_where_and_how(made: str, out: Path) -> None:
    survey = survey_of(made, out, "eager", "compile", precisions=BOTH, command="pike suite made", commit="abc")
    found = measure(Workers(), survey)
    assert len(found) == 12
    result = next(one for one in found if one.cell == (FACTS.name, "made/2_Up", "half", "compile"))
    assert result.speedup == pytest.approx(2.0)
    assert result.task_digest == digest(Path(made, "2_Up.py").read_text())
    place = result.provenance
    assert (place.options.precision, place.effort, place.judges) == (Precision.HALF, Effort.BESIDE, 2)
    assert (place.command, place.commit, place.date[-6:]) == ("pike suite made", "abc", "+00:00")
    assert set(store.read_results([out])) == set(found)
    assert [path.suffix for path in out.glob("results-*")] == [".jsonl"], "one file is quickly carried away"


def test_what_was_measured_here_or_elsewhere_is_not_measured_again(made: str, out: Path, tmp_path: Path) -> None:
    first, again, more = Workers(), Workers(), Workers()
    found = measure(first, survey_of(made, out, "eager", "compile"))
    assert set(measure(again, survey_of(made, out, "eager", "compile"))) == set(found)
    assert len(first.asked) == 6 and not again.asked
    measure(more, survey_of(made, tmp_path / "other", "eager", "compile:max-autotune", have=(out,)))
    assert len(more.asked) == 3, "only the new baseline"


@pytest.mark.parametrize("change", ["task", "versions", "device", "effort", "disturbed"])
def test_what_has_changed_is_measured_again(made: str, out: Path, change: str) -> None:
    survey, later = survey_of(made, out, "eager"), Workers()
    disturbed = Workers(lambda _: Evaluation(Status.UNTRUSTED_TIMING, "busy"))
    measure(disturbed if change == "disturbed" else Workers(), survey)
    match change:
        case "task":
            for path in Path(made).iterdir():
                path.write_text(path.read_text() + "# new")
        case "versions":
            later.facts = replace(FACTS, versions=(("torch", "2"),))
        case "device":
            later.facts = replace(FACTS, name="another")
        case "effort":
            survey = replace(survey, effort=Effort.SEARCH)
    measure(later, survey)
    assert len(later.asked) == 3
    kept = 6 if change == "device" else 3
    assert len(store.read_results([out])) == kept, "the new result takes the place of the old one of its device"


def test_a_worker_that_dies_is_replaced_and_then_blamed(made: str, out: Path, tmp_path: Path) -> None:
    once = Workers()

    def dies_once(request: EvaluationRequest) -> Evaluation:
        if len(once.asked) == 1:
            raise InfraError("gone")
        return instant_verdict(request)

    once.answer = dies_once
    assert all(result.speedup for result in measure(once, survey_of(made, out, "eager")))

    def dies(_: EvaluationRequest) -> Evaluation:
        raise InfraError("gone")

    found = measure(Workers(dies), survey_of(made, tmp_path / "always", "eager"))
    assert {result.evaluation.status for result in found if result.evaluation} == {Status.INFRA_ERROR}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UserError("zeros would pass"), "zeros would pass"),
        (ValueError("surprise\nat line 2"), "ValueError: surprise"),
    ],
    ids=["cannot-be-used", "bug"],
)
def test_a_cell_that_raises_is_a_result_with_a_reason_and_ends_no_other(
    made: str, out: Path, error: Exception, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses_the_second(request: EvaluationRequest) -> Evaluation:
        if "2_Up" in request.task.id:
            raise error
        return instant_verdict(request)

    with caplog.at_level(logging.ERROR):
        found = measure(Workers(refuses_the_second), survey_of(made, out, "eager"))
    assert {result.missing for result in found} == {"", said}
    assert sum(result.speedup is not None for result in found) == 2
    assert ("surprise" in caplog.text) is isinstance(error, ValueError), "a bug is logged"
    later = Workers()
    assert all(result.speedup for result in measure(later, survey_of(made, out, "eager")))
    assert len(later.asked) == 1, "it is tried again"


def test_a_task_that_cannot_be_loaded_fails_alone(made: str, out: Path) -> None:
    Path(made, "3_bad.py").write_text("no python :-)")
    found = measure(Workers(), survey_of(made, out, "eager"))
    assert sum(result.speedup is not None for result in found) == 3


def test_tensorrt_is_tried_once_and_then_known_to_be_missing(made: str, out: Path) -> None:
    def lacks(request: EvaluationRequest) -> Evaluation:
        if "need_tensorrt" in request.source:
            return Evaluation(Status.BUILD_ERROR, "ImportError: torch_tensorrt cannot be imported: no such module")
        return instant_verdict(request)

    workers = Workers(lacks, replace(FACTS, device="cuda:0"))
    found = measure(workers, survey_of(made, out, "tensorrt", "eager", workers=1))
    missing = [result for result in found if result.contender.name == "tensorrt"]
    assert [result.missing for result in missing] == [missing[0].missing] * 3
    assert "torch_tensorrt cannot be imported" in missing[0].missing and "extra" in missing[0].missing
    assert sum("need_tensorrt" in request.source for request in workers.asked) == 1


def test_published_solutions_are_judged_and_missing_ones_said(made: str, out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "10.py").write_text("class ModelNew: pass\n# pike-instant: valid 2ms\n")
    found = measure(Workers(), survey_of(made, out, f"published:{folder}"))
    by_task = {result.task: result for result in found}
    assert by_task["made/10_Up"].speedup == pytest.approx(5.0)
    assert by_task["made/1_Up"].missing == "published:theirs has no solution for 1_Up"
    assert {result.contender.name for result in found} == {"published:theirs"}
    assert str(tmp_path) not in next(out.glob("results-*")).read_text(), "no path in a results file"


@pytest.mark.parametrize(
    ("contender", "words"),
    [
        ("compil", "did you mean 'compile'"),
        ("pike-bb", "did you mean 'pike-b'"),
        ("cuda-graph", "NVIDIA GPU"),
        ("published:/no", "folder"),
        ("winners:/no", "no file or folder"),
        ("run:/no", "no run in /no"),
        ({"base": "compile", "fix_attempts": 2}, "has no option 'fix_attempts'"),
        ({"base": "compile", "precision": "hal"}, "precision of the contender 'compile'"),
    ],
)
def test_a_contender_that_cannot_be_used_is_one_sentence(made: str, out: Path, contender: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        measure(Workers(), survey_of(made, out, contender))
    assert not out.exists()


def test_the_most_valuable_comes_first_and_a_plan_writes_nothing(out: Path) -> None:
    workers = Workers(facts=H100)
    plan = planned(workers, survey_of("level3-pike", out, precisions=BOTH, workers=8))
    first = ("recipes", "compile:max-autotune")
    assert [stage.contenders for stage in plan.stages[:2]] == [first, first]
    assert [stage.place for stage in plan.stages[:2]] == ["level3-pike, same", "level3-pike, half"]
    assert plan.stages[2].contenders[0] == "eager" and "tensorrt" in plan.stages[2].contenders
    assert all(stage.seconds > 0 for stage in plan.stages)
    assert not out.exists() and not workers.asked


def test_a_plan_counts_the_time_that_each_candidate_has_the_device_alone(out: Path) -> None:
    def seconds(effort: Effort) -> float:
        survey = survey_of("level3-pike", out, "cuda-graph", workers=6, effort=effort)
        (stage,) = planned(Workers(facts=H100), survey).stages
        return stage.seconds / stage.cells

    assert seconds(Effort.FINAL) >= CONFIG.evaluate.max_timing_seconds
    assert seconds(Effort.SEARCH) < seconds(Effort.FINAL)


def test_cells_of_one_task_follow_each_other_on_one_worker(made: str, out: Path) -> None:
    busy: dict[str, int] = {}
    most: list[int] = []
    lock = threading.Lock()

    def watch(request: EvaluationRequest) -> Evaluation:
        with lock:
            busy[request.task.id] = busy.get(request.task.id, 0) + 1
            most.append(busy[request.task.id])
        time.sleep(0.01)
        with lock:
            busy[request.task.id] -= 1
        return instant_verdict(request)

    measure(Workers(watch), survey_of(made, out, "compile:max-autotune", "eager", "compile", workers=3))
    assert max(most) == 1


def test_a_part_of_the_tasks_is_measured(made: str, out: Path) -> None:
    found = measure(Workers(), survey_of(made, out, "eager", part=(2, 2)))
    assert [result.task for result in found] == ["made/2_Up"]


class Hanging:
    """Judges that hang on one task until they are killed."""

    def __init__(self, *signals: int) -> None:
        self.signals = signals
        self.workers = Workers(self.answer, on_kill=self.release)
        self.gone = threading.Event()

    def answer(self, request: EvaluationRequest) -> Evaluation:
        if "2_Up" in request.task.id:
            time.sleep(0.3)  # the others end meanwhile
            for number in self.signals:
                os.kill(os.getpid(), number)
                time.sleep(0.1)
            self.gone.wait(60.0)
            raise InfraError("killed")
        return instant_verdict(request)

    def release(self) -> None:
        self.gone.set()


def test_ctrl_c_twice_stops_at_once_and_the_same_command_goes_on(made: str, out: Path) -> None:
    hanging = Hanging(signal.SIGINT, signal.SIGINT)
    found = measure(hanging.workers, survey_of(made, out, "eager"), handle_signals=True)
    assert {result.task for result in found} == {"made/1_Up", "made/10_Up"}
    later = Workers()
    assert len(measure(later, survey_of(made, out, "eager"))) == 3
    assert [request.task.id for request in later.asked] == ["made/2_Up"]


def test_at_the_deadline_everything_stops_and_the_same_command_goes_on(made: str, out: Path, tmp_path: Path) -> None:
    script = write_script(tmp_path / "script.json", [coa("valid 4ms", f"answer {n}") for n in range(9)])
    config = replace(merge(CONFIG, {"budget": {"queries": 2}}), llm=LlmConfig(script))
    survey = survey_of(made, out, "pike-b:no-iba")
    began = time.monotonic()
    found = measure(Hanging().workers, replace(survey, minutes=2.0 / 60.0), config)
    assert time.monotonic() - began < 30
    assert {result.task for result in found} == {"made/1_Up", "made/10_Up"}
    later = Workers()
    assert all(result.speedup == 2.5 for result in measure(later, survey, config))
    assert {request.task.id for request in later.asked} == {"made/2_Up"}


def test_what_cannot_end_in_time_is_not_begun(made: str, out: Path) -> None:
    workers = Workers()
    assert measure(workers, survey_of(made, out, "compile", minutes=0.1)) == ()
    assert not workers.asked


def test_a_disk_that_is_full_stops_the_work(made: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        measure(Workers(), survey_of(made, tmp_path / "file" / "below", "eager"))


def test_no_more_workers_work_side_by_side_than_find_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    assert [worker_count(replace(H100, memory_bytes=gib << 30)) for gib in (8, 24, 79, 140)] == [1, 2, 6, 10]
    assert worker_count(replace(FACTS, memory_bytes=8 << 30)) == 10


def test_baselines_and_strategies_with_their_own_models_stand_in_one_table(
    made: str, out: Path, tmp_path: Path
) -> None:
    usual = write_script(tmp_path / "usual.json", [coa("valid 4ms", "usual")])
    cheap = write_script(tmp_path / "cheap.json", [coa("valid 8ms", "cheap")])
    config = replace(merge(CONFIG, {"budget": {"queries": 3}}), llm=LlmConfig(usual))
    cheaper = {"name": "cheaper", "base": "pike-b:no-iba", "llm": {"coa": cheap, "efa": cheap}}
    contenders = ["eager", "pike-b:no-iba", cheaper]
    found = measure(Workers(), survey_of(made, out, *contenders), config)
    (table,) = tables(found)
    shown = {column.contender.name: (column.contender.kind, column.clamped) for column in table.columns}
    assert shown == {
        "eager": (ContenderKind.BASELINE, pytest.approx(2.0)),
        "pike-b:no-iba": (ContenderKind.RUN, pytest.approx(2.5)),
        "cheaper": (ContenderKind.RUN, pytest.approx(1.25)),
    }
    again = Workers()
    assert len(measure(again, survey_of(made, out, *contenders), config)) == 9
    assert not again.asked, "finished runs are only read"


DRIVER = """
import sys, time
from pathlib import Path
from suite_material import CONFIG, Workers, measure, survey_of
from pike.core.comparison.results import digest
from pike.core.settings.config import LlmConfig
from pike.core.settings.merging import merge
from pike.engine.executors.instant import instant_verdict
from dataclasses import replace

made, out, script, log = sys.argv[1:]

def answer(request):
    with open(log, "a") as file:
        file.write(f"{request.task.id} {request.effort.value} {digest(request.source)}\\n")
    time.sleep(0.1)
    return instant_verdict(request)

config = replace(merge(CONFIG, {"budget": {"queries": 3}}), llm=LlmConfig(script))
measure(Workers(answer), survey_of(made, Path(out), "eager", "compile", "pike-b:no-iba"), config)
"""


@pytest.mark.slow
def test_killed_at_any_moment_the_same_command_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    made = folder_of_tasks(tmp_path, tuple(range(1, 6)))
    script = write_script(tmp_path / "script.json", [coa(f"valid {n + 2}ms", f"answer {n}") for n in range(9)])
    out, log = tmp_path / "out", tmp_path / "log"
    log.touch()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    kills = 0
    for _ in range(2):
        begun = len(log.read_text().splitlines())
        process = subprocess.Popen([sys.executable, "-c", DRIVER, made, out, script, log], env=environment)
        while process.poll() is None and len(log.read_text().splitlines()) < begun + 6:
            time.sleep(0.02)
        kills += process.poll() is None
        process.kill()
        process.wait()
    assert kills == 2
    survey = survey_of(made, out, "eager", "compile", "pike-b:no-iba")
    config = replace(merge(CONFIG, {"budget": {"queries": 3}}), llm=LlmConfig(script))
    rest, none = Workers(), Workers()
    measure(rest, survey, config)
    asked = log.read_text().splitlines()
    asked += [f"{one.task.id} {one.effort.value} {digest(one.source)}" for one in rest.asked]
    assert len(asked) - len(set(asked)) <= 2 * 3 * kills, "only what the two workers were measuring is repeated"
    results = store.results_in([out])
    assert len(results) == len({one.folder for one in results}) == 15
    assert all(one.speedup for one in results)
    measure(none, survey, config)
    assert not none.asked


def test_winners_of_runs_stand_in_the_same_table(tmp_path: Path, out: Path) -> None:
    asyncio.run(begin(tmp_path / "campaign", layer(tmp_path, contenders=["pike-b"])))
    relu = str(tmp_path / "relu.py")

    def found(*contenders: str, **terms: Any) -> dict[str, Result]:
        survey = survey_of(relu, out, *contenders, **terms)
        return {one.contender.name: one for one in measure(Workers(), survey)}

    table = found(f"run:{tmp_path / 'campaign'}", "eager")
    won = table["run:campaign"]
    assert (won.contender.kind, won.contender.source, won.contender.searches) == (ContenderKind.RUN, "", False)
    assert won.speedup and won.speedup > 1 and won.candidates > 1 and won.provenance.effort is Effort.FINAL
    assert table["eager"].contender.kind is ContenderKind.BASELINE
    other = found(f"run:{tmp_path / 'campaign'}", precisions=(Precision.HALF,))["run:campaign"]
    assert other.missing == "no finished run was on this task at this precision"
    (one_run, *_) = sorted((tmp_path / "campaign" / "runs").glob("relu*"))
    assert found(f"run:{one_run}")[f"run:{one_run.name}"].speedup
    assert str(tmp_path) not in next(out.glob("results-*")).read_text(), "no path in a results file"
