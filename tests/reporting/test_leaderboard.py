"""A suite's leaderboard: halves, families, cold starts, and what each recipe contributed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pike.core.comparison.contender import Contender, ContenderKind
from pike.core.comparison.results import Provenance, Result
from pike.core.device import DeviceFacts
from pike.core.events import Event
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, Precision, Status, Timing
from pike.reporting import write
from pike.reporting.contributions import Contribution, contributions, histories_in
from pike.reporting.results import tables
from pike.store import Journal, append_result

RECIPES = Contender("recipes", ContenderKind.RECIPES)
COMPILE = Contender("compile", ContenderKind.BASELINE)
PLACE = Provenance(DeviceFacts("cpu", "made up"), EvaluateOptions("cpu"), Effort.FINAL, date="2026-01-01T00:00:00")
HELD_OUT, OPEN = "zoo/resnet50", "zoo/regnety_016"


def result(task: str, contender: Contender, speedup: float, **other: object) -> Result:
    timing = Timing(6.0, 6.0 / speedup, speedup, (speedup * 0.99, speedup * 1.01), 6, 60, 0.1)
    verdict = Evaluation(Status.VALID, timing=timing, seconds=(("build", 2.0), ("load", 1.0), ("first-call", 4.0)))
    plain = Result(task, "", Precision.SAME, contender, PLACE, evaluation=verdict, family="convnet")
    return replace(plain, **other)  # type: ignore[arg-type]


RESULTS = (
    result(HELD_OUT, RECIPES, 2.0, recipes=("freeze", "inductor"), cold_start_seconds=31.0),
    result(HELD_OUT, COMPILE, 4.0),
    result(OPEN, RECIPES, 8.0, recipes=("inductor",)),
    result(OPEN, COMPILE, 1.0),
    result("zoo/bert_base", RECIPES, 2.0, family="text-encoder", recipes=("inductor",)),
    result("zoo/bert_base", COMPILE, 1.0, family="text-encoder"),
)


def attempt(status: str, speedup: float | None, seconds: float, *recipes: str) -> dict[str, object]:
    return {"status": status, "speedup": speedup, "seconds": seconds, "recipes": recipes}


HISTORY = {
    "task": HELD_OUT,
    "precision": "same",
    "declined": {"scan": "there is no recurrence"},
    "best": "class ModelNew: ...",
    "trail": [
        attempt("valid", 2.0, 10.0, "freeze", "inductor"),
        attempt("incorrect", None, 4.0, "inductor"),
        attempt("infra-error", None, 2.0, "inductor"),
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for one in RESULTS:
        append_result(tmp_path / "results-1.jsonl", one)
    older = HISTORY | {"trail": [attempt("valid", 1.0, 99.0, "freeze")]}
    (tmp_path / "histories-1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (older, HISTORY)))
    return tmp_path


def test_halves_and_families_have_figures_of_their_own():
    (whole,) = tables(RESULTS)
    found = {part.part: (len(part.tasks), part.columns[0].clamped, part.ahead) for part in whole.parts}
    assert found == {
        "held out": (1, pytest.approx(2.0), [pytest.approx(0.5)]),
        "developed on": (2, pytest.approx(4.0), [pytest.approx(2.0), pytest.approx(8.0)]),
        "convnet": (2, pytest.approx(4.0), [pytest.approx(8.0), pytest.approx(0.5)]),
        "text-encoder": (1, pytest.approx(2.0), [pytest.approx(2.0)]),
    }


def test_tasks_without_a_family_have_no_parts():
    (whole,) = tables(replace(one, family="") for one in RESULTS)
    assert whole.parts == ()


def test_the_cold_start_of_a_winner_is_that_of_the_search():
    assert [one.build_seconds for one in RESULTS[:2]] == [31.0, 7.0]


def test_what_recipes_contributed(folder: Path):
    held_out = next(part for part in tables(RESULTS)[0].parts if part.part == "held out")
    assert contributions(histories_in(folder), held_out) == (
        Contribution("freeze", won=1, valid=1, refused=0, declined=0, seconds=5.0),
        Contribution("inductor", won=1, valid=1, refused=1, declined=0, seconds=11.0),
        Contribution("scan", won=0, valid=0, refused=0, declined=1, seconds=0.0),
    )


def test_the_page(folder: Path):
    page = write(folder)
    assert page == folder / "index.html"
    text = " ".join(page.read_text().split())
    assert text.index("Tasks, held out") < text.index("zoo/resnet50") < text.index("Tasks, developed on")
    assert "31.0 s" in text and "freeze + inductor" in text
    assert "there is no recurrence" not in text and "0.50× <span" in text


def test_a_task_leads_to_the_page_of_its_search(tmp_path: Path, events: list[Event]):
    with Journal.create(tmp_path / "runs" / "one") as journal:
        journal.append(*events)
    append_result(tmp_path / "results-1.jsonl", replace(RESULTS[0], folder="one"))
    assert 'href="runs/one/report.html"' in write(tmp_path).read_text()
    assert (tmp_path / "runs" / "one" / "report.html").is_file()


def test_the_page_of_results_of_older_versions(tmp_path: Path):
    committed = Path(__file__).parents[2] / "benchmarks" / "results" / "h100-2026-11-24" / "level3_half.jsonl"
    (tmp_path / "results-1.jsonl").write_text(committed.read_text())
    text = write(tmp_path).read_text()
    assert "level3-pike/2_ShallowWideMLP" in text and "held out<" not in text
