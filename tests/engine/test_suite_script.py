"""`benchmarks/suite_on_device.py` without a device: its plan, what it does not repeat, and how a slice ends."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pike import store
from pike.core.budget import Budget, Spend
from pike.core.device import DeviceFacts
from pike.core.evaluation import Effort, Evaluation, EvaluationRequest, Status, Timing
from pike.core.results import ContenderKind, Result
from pike.core.step import Candidate
from pike.engine import RunResult, contest
from pike.engine.executors.instant import instant_verdict
from pike.engine.ledger import Uncertain

ROOT = Path(__file__).resolve().parents[2]
H100 = DeviceFacts("cuda:0", "NVIDIA H100 80GB HBM3", versions=(("torch", "2.11"),))


RUN = RunResult(
    "t",
    "t",
    "runs/t",
    "recipes",
    (),
    True,
    "hours",
    None,
    None,
    (),
    Spend(),
    Uncertain(),
    Budget(),
    (),
    7,
    1,
    9.0,
    H100,
    "0",
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
    assert [line.split(" on ")[0] for line in lines[:6]] == ["recipes", "compile:max-autotune"] * 3
    assert ["half" in lines[0], "half" in lines[1], "tf32" in lines[2], "same" in lines[4]] == [True] * 4
    assert lines[6].startswith("cuda-graph, compile:reduce-overhead, compile, tensorrt, eager on level3-pike, half")
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
        self.script.Command([sys.executable, "-c", "import time; time.sleep(3600)"], seat).run()
        yield from ()


def test_programs_die_with_the_slice(script: Any) -> None:
    job, began = _Sleeper(script), time.monotonic()
    assert contest.Contest(1, lambda _: None, Judge, seconds=1.0).run([job]) == [job]
    assert time.monotonic() - began < 20


def test_a_search_over_recipes_that_ends_badly_says_why(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failed = subprocess.CompletedProcess([], 2, "", "warning\npike: There is no GPU.\n")
    monkeypatch.setattr(script.Command, "run", lambda _: failed)
    run(
        script,
        monkeypatch,
        "level3-pike/1:small",
        "--precision",
        "same",
        "--baselines",
        "eager",
        "--out",
        str(tmp_path),
    )
    found = {result.contender.name: result for result in store.read_results([tmp_path])}
    assert found["recipes"].missing == "pike optimize: pike: There is no GPU."
    assert found["eager"].evaluation is not None


def test_a_search_over_recipes_is_one_more_result_and_is_not_repeated(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    timing = Timing(6.0, 2.0, 3.0, (2.9, 3.1), 12, 60, 0.1)
    best = Candidate("c3", "class ModelNew: pass", recipes=("half", "freeze"))
    searches: list[Any] = []

    def carried_out(command: Any) -> subprocess.CompletedProcess[str]:
        searches.append(command.words)
        folder = Path(command.words[command.words.index("--out") + 1])
        folder.mkdir()
        (folder / "result.json").write_text("{}")
        (folder / "best.py").write_text("class ModelNew: pass")
        return subprocess.CompletedProcess([], 0, "", "")

    async def read(folder: Path) -> RunResult:
        verdict = Evaluation(Status.VALID, timing=timing, log="chatter")
        return replace(RUN, best=best, evaluation=verdict)

    monkeypatch.setattr(script.Command, "run", carried_out)
    monkeypatch.setattr(script, "read_result", read)
    common = ["level3-pike/1:small", "--precision", "half", "--baselines", "eager", "--out", str(tmp_path)]
    for _ in range(2):
        run(script, monkeypatch, *common)
    assert len(searches) == 1
    assert {"--strategy", "recipes", "--precision", "half", "--max-minutes"} <= set(searches[0])
    found = {result.contender.name: result for result in store.read_results([tmp_path])}["recipes"]
    assert (found.speedup, found.recipes, found.candidates) == (3.0, ("half", "freeze"), 7)
    assert found.contender.kind is ContenderKind.RECIPES
    assert found.provenance.effort is Effort.FINAL
    assert found.candidate_digest and found.evaluation and not found.evaluation.log


def test_lint_reports_are_kept_and_not_asked_for_again(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def answer(command: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess([], 0, json.dumps({"sound": True, "answers": []}), "")

    monkeypatch.setattr(script.Command, "run", answer)
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

    monkeypatch.setattr(script.Command, "run", started)
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
