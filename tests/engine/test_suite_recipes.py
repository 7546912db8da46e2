"""Searches over recipes in a suite: their results, their histories, and what earlier histories change."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_material import ExplorerHere
from suite_material import CONFIG, H100, Workers, measure, survey_of, valid

from pike import store
from pike.core.comparison.contender import ContenderKind
from pike.core.comparison.results import Result, digest
from pike.core.errors import InfraError, UserError
from pike.core.settings.merging import merge
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest, Precision, Status
from pike.engine.executors.exploring import ProcessExplorer
from pike.reporting.results import tables
from pike.tasks import resolve

MLP, RESNET = "level3-pike/1_MLP:small", "level3-pike/9_ResNet18:small"
COMPOSITION = ("half", "compiled_graph", "freeze")
HALF = {"precisions": (Precision.HALF,), "workers": 1}


def history(*tried: tuple[tuple[str, ...], float | None], **other: Any) -> dict[str, Any]:
    known = [{"recipes": names, "speedup": speedup, "status": "valid"} for names, speedup in tried]
    return {"task": MLP, "precision": "half", "trail": known, "best": "class ModelNew: pass\n"} | other


def written(folder: Path, *histories: dict[str, Any]) -> Path:
    path = folder / "histories.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in histories) + '{"task": "cut o')
    return path


def search(out: Path, workers: Workers | None = None, **terms: Any) -> tuple[Workers, tuple[Result, ...]]:
    workers = workers or Workers(valid, H100)
    return workers, measure(workers, survey_of(MLP, out, "recipes", **{**HALF, **terms}), CONFIG)


def titles(workers: Workers) -> list[str]:
    """What the candidates of the search are composed of, in order."""
    searched = [one for one in workers.asked if one.effort is Effort.SEARCH]
    return [one.source.splitlines()[0].partition(": ")[2].rstrip(".") for one in searched]


def test_a_search_over_recipes_is_one_more_result_and_is_not_repeated(tmp_path: Path) -> None:
    workers, (recipes,) = search(tmp_path, candidates=2)
    assert [one.effort for one in workers.asked] == [Effort.SEARCH, Effort.SEARCH, Effort.FINAL, Effort.FINAL]
    assert {one.options.precision for one in workers.asked} == {Precision.HALF}
    assert (recipes.speedup, recipes.candidates, recipes.contender.kind) == (2.0, 2, ContenderKind.RECIPES)
    assert recipes.recipes and recipes.provenance.effort is Effort.FINAL and not recipes.provenance.shared_caches
    (best,) = {one.source for one in workers.asked[2:] if digest(one.source) == recipes.candidate_digest}
    (path,) = tmp_path.glob("histories-*")
    (kept,) = [json.loads(text) for text in path.read_text().splitlines()]
    assert recipes.evaluation and kept["best"] == best
    assert [one["status"] for one in kept["trail"]] == ["valid", "valid"]
    assert kept["declined"]["sdpa"]
    again, found = search(tmp_path, candidates=2)
    assert not again.asked and [one.candidate_digest for one in found] == [recipes.candidate_digest]


def test_baselines_beside_the_finalists_are_results_that_name_the_search(tmp_path: Path) -> None:
    def answer(request: EvaluationRequest) -> Evaluation:
        return replace(valid(request), reason="by the search" if "ModelNew" in request.source else "")

    config = merge(CONFIG, {"engine": {"baselines": ["compile", "cuda-graph"]}})
    survey = survey_of(MLP, tmp_path, "recipes", **HALF, candidates=1)
    workers = Workers(answer, H100)
    found = {one.contender.name: one for one in measure(workers, survey, config)}
    assert list(found) == ["compile", "cuda-graph", "recipes"]
    assert {name: one.beside for name, one in found.items()} == dict.fromkeys(found, "recipes") | {"recipes": ""}
    beside = found["compile"]
    assert beside.contender.kind is ContenderKind.BASELINE and beside.provenance.effort is Effort.BESIDE
    assert beside.speedup == 2.0 and not beside.recipes and beside.provenance.device == H100
    assert set(store.read_results([tmp_path])) == set(found.values())
    again = Workers(answer, H100)
    assert set(measure(again, survey, config)) == set(found.values()) and not again.asked
    (table,) = tables(found.values())
    assert table.ahead == [1.0]


def test_a_winner_starts_cold_and_costs_what_the_search_measured(tmp_path: Path) -> None:
    def answer(request: EvaluationRequest) -> Evaluation:
        spent = (("build", 2.0), ("load", 1.0), ("correct", 4.0), ("first-call", 3.0), ("lock-wait", 9.0))
        kept = (("build", 0.1), ("load", 0.1), ("correct", 0.1), ("first-call", 0.1))
        return replace(valid(request), seconds=spent if request.effort is Effort.SEARCH else kept)

    _, (found,) = search(tmp_path, Workers(answer, H100), candidates=1)
    assert found.build_seconds == 6.0
    (path,) = tmp_path.glob("histories-*")
    assert [one["seconds"] for one in json.loads(path.read_text())["trail"]] == [7.0]


def test_a_search_without_a_valid_candidate_leaves_the_original(tmp_path: Path) -> None:
    workers = Workers(lambda _: Evaluation(Status.BUILD_ERROR, "no compiler"), H100)
    _, (found,) = search(tmp_path, workers, candidates=1)
    assert found.original and found.speedup == 1.0


def test_a_task_that_no_worker_can_use_does_not_end_the_others(tmp_path: Path) -> None:
    def answer(request: EvaluationRequest) -> Evaluation:
        if request.task.id == MLP:
            raise UserError("finds too little memory")
        return valid(request)

    survey = replace(survey_of(MLP, tmp_path, "recipes", **HALF, candidates=1), targets=(MLP, RESNET))
    found = {one.task: one for one in measure(Workers(answer, H100), survey)}
    assert found[MLP].missing == "finds too little memory"
    assert found[RESNET].speedup == 2.0


def test_what_won_before_is_tried_first_and_nothing_else_twice(tmp_path: Path) -> None:
    workers, _ = search(tmp_path / "first", candidates=1)
    (usual,) = titles(workers)
    known = written(tmp_path, history((tuple(usual.split(" + ")), 1.5), (COMPOSITION, 2.5)), history((("half",), None)))
    later, _ = search(tmp_path / "second", candidates=3, known=(known,))
    assert titles(later)[0] == " + ".join(COMPOSITION)
    assert len(set(titles(later))) == 3 and usual not in titles(later)


def test_what_won_before_does_not_take_the_time_of_what_is_new(tmp_path: Path) -> None:
    known = written(tmp_path, history((COMPOSITION, 2.5)))
    workers, _ = search(tmp_path / "out", candidates=3, recipe_minutes=0.0, known=(known,))
    won, new = titles(workers)
    assert won == " + ".join(COMPOSITION) and new != won


@pytest.mark.parametrize(
    ("own", "first"),
    [
        ([], True),
        ([history((("half",), None))], True),
        ([history((("half",), 3.0), best="")], True),
        ([history((("half", "compiled_graph"), 1.2))], False),
    ],
    ids=["not-searched", "refused", "refused-as-a-finalist", "won"],
)
def test_what_won_at_a_stricter_precision_is_tried_first_if_nothing_else_won(
    tmp_path: Path, own: list[dict[str, Any]], first: bool
) -> None:
    known = written(tmp_path, *own, history((("compiled_graph", "freeze"), 1.5), precision="same"))
    workers, _ = search(tmp_path / "out", candidates=1, known=(known,))
    assert (titles(workers)[0] == "compiled_graph + freeze") is first


def test_what_searches_found_is_measured_again_and_nothing_is_searched(tmp_path: Path) -> None:
    known = written(
        tmp_path,
        history((("freeze",), 1.5), best="class ModelNew: slower\n"),
        history((("half",), 2.5), (("bf16",), None), (("half", "freeze"), 2.0), best="class ModelNew: faster\n"),
        history((("bf16",), 3.0), best=""),
        history((("half",), None), task=RESNET, best=""),
    )
    survey = survey_of(MLP, tmp_path / "out", f"winners:{known}", **HALF)
    survey, workers = replace(survey, targets=(MLP, RESNET)), Workers(valid, H100)
    found = {one.task: one for one in measure(workers, survey)}
    assert [(one.source, one.effort) for one in workers.asked] == [("class ModelNew: faster\n", Effort.FINAL)]
    assert (found[MLP].recipes, found[MLP].candidates, found[MLP].original) == (("half",), 3, False)
    assert found[RESNET].original and found[RESNET].speedup == 1.0
    assert (found[MLP].contender.name, found[MLP].contender.source) == ("recipes", "")

    again = Workers(valid, H100)
    measure(again, survey)
    assert not again.asked, "the folder holds it"
    other = replace(found[MLP], candidate_digest=digest("class ModelNew: slower\n"))
    newest = replace(other.provenance, date="2100-01-01T00:00:00+00:00", device=replace(H100, name="NVIDIA H200"))
    store.append_result(tmp_path / "elsewhere.jsonl", replace(other, provenance=newest))
    measure(again, replace(survey, out=tmp_path / "again", have=(tmp_path / "elsewhere.jsonl",)))
    assert [one.source for one in again.asked] == ["class ModelNew: slower\n"], "what was measured last counts"


def test_a_winner_whose_worker_fails_is_not_said_to_be_slower(tmp_path: Path) -> None:
    known = written(tmp_path, history((COMPOSITION, 2.5)))
    workers = Workers(lambda _: Evaluation(Status.INFRA_ERROR, "the judge died"), H100)
    (found,) = measure(workers, survey_of(MLP, tmp_path / "out", f"winners:{known}", **HALF))
    assert not found.original and found.speedup is None


def test_a_model_is_explored_in_a_process_of_its_own_that_can_be_ended(tmp_path: Path) -> None:
    explorer, task = ProcessExplorer(), resolve(MLP)
    options = EvaluateOptions(precision=Precision.HALF)
    found = explorer.explore(task, H100, options)
    assert found == ExplorerHere().explore(task, H100, options)
    threading.Timer(0.5, explorer.close).start()
    with pytest.raises(InfraError, match="the run ended before"):
        explorer.explore(task, H100, options)


LOST = """
import os, torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        print("printed by the model")
        if torch.compiler.is_exporting():
            os._exit(7)
        return self.linear(x)

def get_inputs():
    return [torch.randn(2, 4)]

def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_two_models_are_captured_at_once_and_one_that_ends_its_process_is_asked_again(tmp_path: Path) -> None:
    lost = Task("test/lost", "lost", TaskKind.SOURCE, LOST, "<test>")
    explorer, options = ProcessExplorer(), EvaluateOptions(precision=Precision.HALF)
    with ThreadPoolExecutor() as pool:
        found = [pool.submit(explorer.explore, task, H100, options) for task in (resolve(MLP), lost)]
    whole, half = (one.result() for one in found)
    assert not whole.declined["half"]
    assert (
        half.declined["half"] == "the model cannot be captured as a graph: a process that captured it ended with code 7"
    )
    assert not half.declined["cuda_graph"], "what needs no graph still applies"
