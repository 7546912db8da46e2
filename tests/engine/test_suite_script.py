"""`benchmarks/suite_on_device.py` without a device: its plan, what it does not repeat, and how a slice ends."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pike import store
from pike.api.opponents import tasks_named
from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, UserError
from pike.core.evaluation import Effort, Evaluation, EvaluationRequest, Status
from pike.core.results import ContenderKind, Result, digest
from pike.engine import contest
from pike.engine.executors.instant import instant_verdict
from pike.recipes.registry import BY_NAME

ROOT = Path(__file__).resolve().parents[2]
H100 = DeviceFacts(
    "cuda:0", "NVIDIA H100 80GB HBM3", capability="9.0", compilers=("g++", "triton"), versions=(("torch", "2.11"),)
)


class Judge:
    asked: ClassVar[list[EvaluationRequest]] = []

    def evaluate(self, request: EvaluationRequest, on_stage: object = None) -> Evaluation:
        Judge.asked.append(request)
        return instant_verdict(replace(request, source=request.source + "# pike-instant: valid 5ms\n"))

    def facts(self, device: str) -> DeviceFacts:
        return H100

    def kill(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("suite_on_device", ROOT / "benchmarks" / "suite_on_device.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setitem(sys.modules, "suite_on_device", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "device_facts", lambda _: H100)
    monkeypatch.setattr(contest, "_start_judge", Judge)
    monkeypatch.setattr(Judge, "asked", [])
    return module


def run(script: Any, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["suite_on_device.py", *arguments])
    script.main()


def test_the_plan_begins_with_what_is_worth_most(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(script, monkeypatch, "level3-pike", "level5", "--out", str(tmp_path), "--dry-run", "--seats", "8")
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(" on ")[0] for line in lines[:3]] == ["recipes, compile:max-autotune"] * 3
    assert ["half" in lines[0], "tf32" in lines[1], "same" in lines[2]] == [True] * 3
    assert lines[3].startswith("cuda-graph, compile:reduce-overhead, compile, tensorrt, eager on level3-pike, half")
    suites = ["level3-pike" if "level3-pike" in line else "level5" for line in lines[:-1]]
    assert suites == sorted(suites)
    assert "slices of 9 minutes" in lines[-1]
    assert not list(tmp_path.iterdir()) and not Judge.asked


def test_a_slice_keeps_one_file_and_the_next_one_goes_on(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    common = ["level3-pike/1:small", "level3-pike/9:small", "--no-recipes", "--precision", "half,same", "--seats", "2"]
    run(script, monkeypatch, *common, "--baselines", "eager,cuda-graph", "--out", str(first))
    assert len(Judge.asked) == 8
    assert [path.suffix for path in first.iterdir()] == [".jsonl"]
    results = store.read_results([first])
    assert {result.provenance.command for result in results} == {
        "python3 benchmarks/suite_on_device.py "
        + " ".join([*common, "--baselines", "eager,cuda-graph", "--out FOLDER"])
    }, "no folder of this machine"
    assert {request.caches for request in Judge.asked} == {"baseline"}
    more = ["--baselines", "eager,cuda-graph,compile", "--out", str(second), "--have", str(first), "--minutes", "9"]
    run(script, monkeypatch, *common, *more)
    assert len(Judge.asked) == 8 + 4, "only the new baseline"
    assert len(store.read_results([first, second])) == 12
    assert "0 of 4 jobs left" in capsys.readouterr().out


def test_eager_times_stand_beside_the_published_ones(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(script, monkeypatch, "level3-pike/9", "--eager-only", "--out", str(tmp_path))
    assert "published    1.2479 ms  ratio  8.01" in capsys.readouterr().out


class _Sleeper:
    """A job that runs a program which would take an hour."""

    expected_seconds = 0.0

    def __init__(self, script: Any) -> None:
        self.script = script

    def results(self, seat: contest.Seat) -> Iterator[Result]:
        sys.modules["suite_jobs"].Command([sys.executable, "-c", "import time; time.sleep(3600)"], seat).run()
        yield from ()


def test_programs_die_with_the_slice(script: Any) -> None:
    job, began = _Sleeper(script), time.monotonic()
    assert contest.Contest(1, lambda _: None, Judge, seconds=1.0).run([job]) == [job]
    assert time.monotonic() - began < 20


COMPOSITION = ("half", "compiled_graph", "freeze")
SEARCH = ["level3-pike/1:small", "--precision", "half", "--baselines", "eager", "--seats", "1"]


def trail(*tried: tuple[tuple[str, ...], float | None]) -> dict[str, Any]:
    known = [{"recipes": names, "speedup": speedup, "status": "valid"} for names, speedup in tried]
    return {"task": "level3-pike/1_MLP:small", "precision": "half", "trail": known, "best": "class ModelNew: pass\n"}


def searched(requests: list[EvaluationRequest]) -> list[EvaluationRequest]:
    return [request for request in requests if "PIKE's recipes" in request.source]


def test_a_search_over_recipes_is_one_more_result_and_is_not_repeated(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for _ in range(2):
        run(script, monkeypatch, *SEARCH, "--candidates", "2", "--out", str(tmp_path))
    requests = searched(Judge.asked)
    assert [request.effort for request in requests] == [Effort.SEARCH, Effort.SEARCH, Effort.FINAL]
    assert {request.options.precision.value for request in requests} == {"half"}
    found = {result.contender.name: result for result in store.read_results(sorted(tmp_path.glob("results-*")))}
    recipes = found["recipes"]
    assert (recipes.speedup, recipes.candidates, recipes.contender.kind) == (2.0, 2, ContenderKind.RECIPES)
    assert recipes.recipes and recipes.provenance.effort is Effort.FINAL and not recipes.provenance.shared_caches
    assert recipes.candidate_digest == digest(requests[-1].source) and recipes.evaluation
    assert found["eager"].evaluation is not None
    (path,) = tmp_path.glob("trails-*")
    (kept,) = [json.loads(text) for text in path.read_text().splitlines()]
    assert kept["best"] == requests[-1].source
    assert [one["status"] for one in kept["trail"]] == ["valid", "valid"]
    assert kept["declined"]["tf32"] == "" and kept["declined"]["sdpa"]


def test_a_search_without_a_valid_candidate_leaves_the_original(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Judge, "evaluate", lambda *_: Evaluation(Status.BUILD_ERROR, "no compiler"))
    run(script, monkeypatch, *SEARCH, "--candidates", "1", "--out", str(tmp_path))
    found = {result.contender.name: result for result in store.read_results(sorted(tmp_path.glob("results-*")))}
    assert found["recipes"].original and found["recipes"].speedup == 1.0


@pytest.mark.parametrize("winners", [False, True], ids=["searched", "measured-again"])
def test_a_task_that_no_judge_can_use_does_not_end_the_slice(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, winners: bool
) -> None:
    answer = Judge.evaluate

    def evaluate(self: Judge, request: EvaluationRequest, on_stage: object = None) -> Evaluation:
        if "1_MLP" in request.task.id:
            raise UserError("finds too little memory")
        return answer(self, request)

    monkeypatch.setattr(Judge, "evaluate", evaluate)
    trails = [trail((COMPOSITION, 2.5)), trail((COMPOSITION, 2.5)) | {"task": "level3-pike/9_ResNet18:small"}]
    (tmp_path / "trails.jsonl").write_text("".join(json.dumps(one) + "\n" for one in trails))
    given = ["--winners", str(tmp_path / "trails.jsonl")] if winners else ["--candidates", "1"]
    tasks = ["level3-pike/1:small", "level3-pike/9:small", "--precision", "half", "--seats", "1", "--no-baselines"]
    run(script, monkeypatch, *tasks, *given, "--out", str(tmp_path / "out"))
    first, second = store.read_results(sorted((tmp_path / "out").glob("results-*")))
    assert first.missing == "the task cannot be used: finds too little memory"
    assert second.speedup == 2.0


def test_a_winner_whose_judge_fails_is_not_said_to_be_slower(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Judge, "evaluate", lambda *_: Evaluation(Status.INFRA_ERROR, "the judge died"))
    (tmp_path / "trails.jsonl").write_text(json.dumps(trail((COMPOSITION, 2.5))) + "\n")
    given = ["--winners", str(tmp_path / "trails.jsonl"), "--no-baselines", "--out", str(tmp_path / "out")]
    run(script, monkeypatch, "level3-pike/1:small", "--precision", "half", "--seats", "1", *given)
    (found,) = store.read_results(sorted((tmp_path / "out").glob("results-*")))
    assert not found.original and found.speedup is None


def test_no_more_judges_work_side_by_side_than_find_memory(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script.os, "cpu_count", lambda: 16)
    seats = [script.seats_for(replace(H100, memory_bytes=gib << 30)) for gib in (8, 24, 79, 140)]
    assert seats == [1, 2, 6, 10]
    assert script.seats_for(DeviceFacts("cpu", "a CPU", memory_bytes=8 << 30)) == 10


def test_what_won_before_is_tried_first_and_nothing_else_twice(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run(script, monkeypatch, *SEARCH, "--candidates", "1", "--out", str(tmp_path / "first"))
    (usual,) = {request.source for request in searched(Judge.asked)}
    usually = tuple(usual.splitlines()[0].partition(": ")[2].rstrip(".").split(" + "))
    (tmp_path / "trails.jsonl").write_text(
        json.dumps(trail((usually, 1.5), (COMPOSITION, 2.5))) + "\n" + json.dumps(trail((("half",), None))) + "\n"
    )
    Judge.asked.clear()
    known = ["--known", str(tmp_path / "trails.jsonl"), "--out", str(tmp_path / "second")]
    run(script, monkeypatch, *SEARCH, "--candidates", "3", *known)
    titles = [request.source.splitlines()[0] for request in searched(Judge.asked)][:-1]
    assert titles[0].endswith(": " + " + ".join(COMPOSITION) + ".")
    assert len(set(titles)) == 3 and usual.splitlines()[0] not in titles


def test_what_won_before_does_not_take_the_time_of_what_is_new(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "trails.jsonl").write_text(json.dumps(trail((COMPOSITION, 2.5))))
    known = ["--known", str(tmp_path / "trails.jsonl"), "--out", str(tmp_path / "out")]
    run(script, monkeypatch, *SEARCH, "--candidates", "3", "--recipe-minutes", "0", *known)
    won, new = [request.source.splitlines()[0] for request in searched(Judge.asked)][:-1]
    assert won.endswith(": " + " + ".join(COMPOSITION) + ".")
    assert new != won


@pytest.mark.parametrize(
    ("own", "first"),
    [([], True), ([trail((("half",), None))], True), ([trail((("half",), 3.0)) | {"best": ""}], True),
     ([trail((("half", "compiled_graph"), 1.2))], False)],
    ids=["not-searched", "refused", "refused-as-a-finalist", "won"],
)  # fmt: skip
def test_what_won_at_a_stricter_precision_is_tried_first_where_nothing_else_did(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: list[dict[str, Any]], first: bool
) -> None:
    stricter = trail((("compiled_graph", "freeze"), 1.5)) | {"precision": "same"}
    (tmp_path / "trails.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*own, stricter]))
    known = ["--known", str(tmp_path / "trails.jsonl"), "--out", str(tmp_path / "out")]
    run(script, monkeypatch, *SEARCH, "--candidates", "1", *known)
    title = searched(Judge.asked)[0].source.splitlines()[0]
    assert title.endswith(": compiled_graph + freeze.") is first


def test_what_was_explored_elsewhere_is_believed_for_the_same_device_and_pytorch_only(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    explored = {
        "declined": dict.fromkeys(BY_NAME, "not this time") | {"half": "", "compiled_graph": ""},
        "gains": dict.fromkeys(BY_NAME, 0.0) | {"half": 0.5},
        "adapted": {"half": ["fragile", "linear_1"]},
    }
    record = {
        "task": "level3-pike/1_MLP:small",
        "task_digest": digest(tasks_named(["level3-pike/1:small"])[0].source),
        "precision": "half",
        "device": H100.name,
        "torch": "2.11",
        "operators": 5,
        "explored": explored,
    }
    (tmp_path / "explored.jsonl").write_text(json.dumps(record) + "\n")
    elsewhere = [json.dumps(record | {"torch": "2.12"}), json.dumps(record | {"device": "NVIDIA A100"})]
    (tmp_path / "elsewhere.jsonl").write_text("\n".join(elsewhere) + "\n")
    for name in ("explored", "elsewhere"):
        Judge.asked.clear()
        given = ["--explored", str(tmp_path / f"{name}.jsonl"), "--out", str(tmp_path / name)]
        run(script, monkeypatch, *SEARCH, "--candidates", "1", *given)
        found = searched(Judge.asked)[0].source
        assert ("keep=('fragile', 'linear_1')" in found) is (name == "explored")


def test_a_search_that_the_end_of_the_slice_cuts_off_is_no_result(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = threading.Event()

    def never(*_: object) -> Evaluation:
        gone.wait()
        raise InfraError("killed")

    monkeypatch.setattr(Judge, "evaluate", never)
    monkeypatch.setattr(Judge, "kill", lambda _: gone.set())
    monkeypatch.setattr(script, "CANDIDATE_SECONDS", -100.0)  # so that it is begun
    run(script, monkeypatch, *SEARCH, "--candidates", "1", "--minutes", "0.1", "--out", str(tmp_path))
    assert "2 of 2 jobs left" in capsys.readouterr().out
    assert not list(tmp_path.glob("results-*"))


def test_lint_reports_are_kept_and_not_asked_for_again(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def answer(command: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess([], 0, json.dumps({"sound": True, "answers": []}), "")

    monkeypatch.setattr(sys.modules["suite_jobs"].Command, "run", answer)
    for _ in range(2):
        run(script, monkeypatch, "level3-pike/1:small", "--lint", "--out", str(tmp_path))
    assert len(asked) == 1
    (path,) = tmp_path.iterdir()
    assert json.loads(path.read_text())["task"] == "level3-pike/1_MLP:small"


def test_what_searches_found_is_measured_again_and_nothing_is_searched(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def search(task: str, best: str, *tried: tuple[list[str], float | None]) -> str:
        trail = [{"recipes": recipes, "speedup": speedup} for recipes, speedup in tried]
        return json.dumps({"task": task, "precision": "half", "trail": trail, "best": best}) + "\n"

    def started(command: Any) -> None:
        raise AssertionError(command.words)

    monkeypatch.setattr(sys.modules["suite_jobs"].Command, "run", started)
    mlp, resnet = "level3-pike/1_MLP:small", "level3-pike/9_ResNet18:small"
    (tmp_path / "trails.jsonl").write_text(
        search(mlp, "class ModelNew: slower\n", (["freeze"], 1.5))
        + search(mlp, "class ModelNew: faster\n", (["half"], 2.5), (["bf16"], None), (["half", "freeze"], 2.0))
        + search(mlp, "", (["bf16"], 3.0))
        + search(resnet, "", (["half"], None))
    )
    only = [mlp, resnet, "--precision", "half", "--baselines", "eager", "--seats", "1"]
    run(script, monkeypatch, *only, "--winners", str(tmp_path / "trails.jsonl"), "--out", str(tmp_path / "out"))
    results = [one for one in store.read_results([tmp_path / "out"]) if one.contender.name == "recipes"]
    found = {result.task: result for result in results}
    assert [request.source for request in Judge.asked if "faster" in request.source] == ["class ModelNew: faster\n"]
    assert not [request for request in Judge.asked if "slower" in request.source]
    assert (found[mlp].recipes, found[mlp].candidates, found[mlp].original) == (("half",), 3, False)
    assert found[mlp].provenance.effort is Effort.FINAL and found[mlp].evaluation
    assert found[resnet].original and found[resnet].speedup == 1.0

    asked = len(Judge.asked)
    winners = ["--winners", str(tmp_path / "trails.jsonl"), "--no-baselines"]
    run(script, monkeypatch, *only, *winners, "--out", str(tmp_path / "out"))
    assert len(Judge.asked) == asked, "the folder holds it"
    other = replace(found[mlp], candidate_digest=digest("class ModelNew: slower\n"))
    newest = replace(other.provenance, date="2100-01-01T00:00:00+00:00", device=replace(H100, name="NVIDIA H200"))
    store.ResultLines(tmp_path / "elsewhere.jsonl").put(replace(other, provenance=newest))
    have = ["--have", str(tmp_path / "elsewhere.jsonl"), "--out", str(tmp_path / "again")]
    run(script, monkeypatch, *only, *winners, *have)
    assert [request.source for request in Judge.asked[asked:]] == ["class ModelNew: slower\n"]
