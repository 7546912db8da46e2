"""Results and plans on disk: what a kill loses, what is passed over, and that old forms open."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pike import engine, store
from pike.core.comparison.contender import Contender, ContenderKind
from pike.core.comparison.results import Provenance, Result, latest
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest, Precision, Status
from pike.engine.executors.instant import instant_verdict
from pike.engine.output.commit import commit
from pike.engine.schedule.campaign import CampaignWiring, resume_campaign
from pike.reporting.campaign import CellState
from pike.store import campaigns
from pike.tasks import resolve

ASSETS = Path(__file__).parent / "assets"


def result(task: str = "made/1", contender: str = "eager") -> Result:
    request = EvaluationRequest(resolve("demo/gpt_block"), "# pike-instant: valid 5ms")
    place = Provenance(DeviceFacts("cpu", "made up"), EvaluateOptions(), Effort.FINAL, date="2026-01-01T00:00:00+00:00")
    column = Contender(contender, ContenderKind.BASELINE)
    return Result(task, "", Precision.SAME, column, place, evaluation=instant_verdict(request))


def test_lines_survive_a_kill_in_the_middle_of_one(tmp_path: Path) -> None:
    path, one, other = tmp_path / "results.jsonl", result(), result(contender="compile")
    store.append_result(path, one)
    with path.open("a") as file:
        file.write('{"format":"pike-results-1","task":"ma')
    store.append_result(path, other)
    assert store.read_results([path]) == (one, other)


def test_files_that_are_no_results_are_passed_over_and_bad_ones_named(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"seconds": 1}')
    (tmp_path / "list.json").write_text("[1]")
    assert store.read_results([tmp_path]) == ()
    (tmp_path / "bad.json").write_text(json.dumps({"format": "pike-results-1", "results": [{"task": 1}]}))
    with pytest.raises(UserError, match=r"bad\.json"):
        store.read_results([tmp_path])
    with pytest.raises(UserError, match="no file or folder"):
        store.read_results([tmp_path / "none"])


def test_the_newest_of_a_cell_counts() -> None:
    one = result()
    older = replace(one, seconds=1.0, provenance=replace(one.provenance, date="2020-01-01T00:00:00+00:00"))
    assert latest([one, older]) == (one,) == latest([older, one])
    failed = replace(one, evaluation=Evaluation(Status.INFRA_ERROR, "the judge died"))
    absent = replace(one, evaluation=None, missing="no memory")
    for nothing in (failed, absent):
        assert latest([older, nothing]) == (older,) == latest([nothing, older]), "it says nothing about the contender"


def test_results_of_older_versions_open() -> None:
    committed = Path(__file__).parents[2] / "benchmarks" / "results" / "h100-2026-11-23"
    found = store.read_results([committed])
    assert {one.contender.kind for one in found} >= {ContenderKind.BASELINE, ContenderKind.RECIPES}


def test_a_plan_of_an_older_version_opens_and_is_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ASSETS / "campaign_v1", tmp_path / "c")
    source = "```python\n# pike-instant: valid 4ms final 5ms\nclass ModelNew: mark = 1\n```"
    (tmp_path / "script.json").write_text(json.dumps({"model": "scripted", "answer": [{"text": source}]}))
    monkeypatch.chdir(tmp_path)
    plan = campaigns.read_plan(tmp_path / "c")
    assert [(one.name, one.kind) for one in plan.contenders] == [
        ("pike-b:no-iba", ContenderKind.RUN),
        ("mine", ContenderKind.RUN),
    ]
    assert [cell.folder for cell in plan.cells()] == [
        "demo-gpt_block--pike-b-no-iba--1-e29ee6",
        "demo-gpt_block--mine--1-6b73f5",
    ], "runs are found where the older version left them"
    assert [cell.run_seed for cell in plan.cells()] == [2060089274, 1079986777]
    wiring = CampaignWiring(executor=engine.InstantExecutor(), load=None, handle_signals=False)
    figures = asyncio.run(resume_campaign(tmp_path / "c", wiring))
    assert [(cell.state, cell.speedup) for cell in figures.cells] == [(CellState.FINISHED, 2.0)] * 2


def test_the_commit_is_that_of_the_checkout_and_nothing_elsewhere(tmp_path: Path) -> None:
    assert commit(tmp_path) == ""
    found = commit()
    assert found == "" or len(found.removesuffix("-dirty")) == 12


PLAIN = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "h200-2026-11-23" / "level5_same.jsonl"


def test_compressed_lines_are_read_like_plain_ones(tmp_path: Path) -> None:
    (tmp_path / "slice.jsonl.gz").write_bytes(gzip.compress(PLAIN.read_bytes()))
    found = store.read_results([tmp_path])
    assert found and found == store.read_results([PLAIN]) == store.read_results([tmp_path / "slice.jsonl.gz"])


def test_a_compressed_file_that_was_cut_off_is_a_user_error(tmp_path: Path) -> None:
    path = tmp_path / "slice.jsonl.gz"
    path.write_bytes(gzip.compress(PLAIN.read_bytes())[:-20])
    with pytest.raises(UserError, match=r"slice\.jsonl\.gz cannot be read"):
        store.read_results([tmp_path])
