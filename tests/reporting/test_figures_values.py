"""The CSV files of figures say what the journals say, computed here in another way."""

from __future__ import annotations

import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_runs import whole_run
from simulated_campaign import Scale, write_campaign

import pike
from pike.core.events import Event, Judged, Proposed, QueryAnswered, QuerySent, RunStarted
from pike.core.verdict.evaluation import Effort
from pike.reporting.figures.choice import DrawingTerms, draw_all, list_all
from pike.reporting.figures.data.code_facts import facts, similarity, techniques
from pike.reporting.figures.tabular import TextCell, latex, markdown
from pike.store import Journal, campaigns, read, read_results

Rows = list[dict[str, str]]


def rows(folder: Path, name: str) -> Rows:
    with (folder / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def runs(campaign: Path, contender: str) -> Iterator[tuple[str, int, list[tuple[float, Event]]]]:
    for cell in campaigns.read_plan(campaign).cells():
        if cell.column == contender and cell.contender.searches:
            entries = read(campaigns.run_folder(campaign, cell.folder))
            yield cell.task.name, cell.repeat, [(entry.at_seconds, entry.event) for entry in entries]


def finals(campaign: Path, contender: str) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for task, repeat, events in runs(campaign, contender):
        measured = [e.evaluation.speedup for _, e in events if isinstance(e, Judged) and e.effort is Effort.FINAL]
        found[repeat][task] = max((one for one in measured if one), default=1.0)
    return found


def geomean(values: list[float]) -> float:
    return math.prod(max(1.0, value) for value in values) ** (1 / len(values))


@pytest.mark.parametrize("contender", Scale().presets)
def test_overall_speedups_are_geomeans_of_the_measured_bests(simulated: Path, drawn: Path, contender: str) -> None:
    (row,) = [one for one in rows(drawn, "speedups") if one["contender"] == contender]
    repeats = finals(simulated, contender)
    each = [geomean(list(tasks.values())) for tasks in repeats.values()]
    assert float(row["speedup"]) == pytest.approx(
        geomean([one for tasks in repeats.values() for one in tasks.values()]), rel=1e-5
    )
    assert [float(row["low"]), float(row["high"])] == pytest.approx([min(each), max(each)], rel=1e-5)
    shown = sorted(
        float(one["speedup"])
        for one in rows(drawn, "spread")
        if (one["contender"], one["what"]) == (contender, "one repeat")
    )
    assert shown == pytest.approx(sorted(each), rel=1e-5)


def test_a_baseline_stands_beside_the_strategies(simulated: Path, drawn: Path) -> None:
    (row,) = [one for one in rows(drawn, "speedups") if one["contender"] == "compile"]
    known = [result.speedup or 1.0 for result in read_results([simulated])]
    assert float(row["speedup"]) == pytest.approx(geomean(known), rel=1e-5)


@pytest.mark.parametrize("axis", ["queries", "dollars", "minutes"])
def test_trajectories_begin_at_one_rise_and_end_at_the_best_of_the_search(
    simulated: Path, drawn: Path, axis: str
) -> None:
    line = [one for one in rows(drawn, f"trajectories-{axis}") if one["contender"] == "stark"]
    values = [float(one["speedup"]) for one in line]
    bests = [
        max(
            [
                1.0,
                *(
                    e.evaluation.speedup or 0.0
                    for _, e in events
                    if isinstance(e, Judged) and e.effort is Effort.SEARCH
                ),
            ]
        )
        for _, _, events in runs(simulated, "stark")
    ]
    assert (float(line[0][axis]), values[0]) == (0.0, 1.0)
    assert values == sorted(values)
    assert values[-1] == pytest.approx(geomean(bests), rel=1e-5)
    assert all(float(one["low"]) <= float(one["speedup"]) <= float(one["high"]) for one in line)


def test_a_trajectory_over_money_knows_what_was_paid_for(simulated: Path, drawn: Path) -> None:
    paid = [
        sum(e.answer.usd for _, e in events if isinstance(e, QueryAnswered))
        for _, _, events in runs(simulated, "stark")
    ]
    line = [one for one in rows(drawn, "trajectories-dollars") if one["contender"] == "stark"]
    assert float(line[-1]["dollars"]) == pytest.approx(max(paid), rel=1e-5)


def test_tasks_have_their_median_and_the_best_in_bold(simulated: Path, drawn: Path) -> None:
    found = finals(simulated, "pike-b")
    task = "level3-pike/31_VisionAttention"
    mine = [one for one in rows(drawn, "tasks") if one["task"] == task]
    (row,) = [one for one in mine if one["contender"] == "pike-b"]
    assert float(row["speedup"]) == pytest.approx(statistics.median(tasks[task] for tasks in found.values()), rel=1e-5)
    best = max((one for one in mine if one["speedup"]), key=lambda one: float(one["speedup"]))
    assert [one["contender"] for one in mine if one["best"] == "1"] == [best["contender"]]
    bold = f"{float(best['speedup']):.2f}"
    assert f"**{bold}**" in (drawn / "tasks.md").read_text()
    assert f"\\textbf{{{bold}}}" in (drawn / "tasks.tex").read_text()


def test_repairs_count_what_failed_and_was_mended(simulated: Path, drawn: Path) -> None:
    failing, mended, usd = set(), set(), 0.0
    for task, repeat, events in runs(simulated, "pike-b"):
        steps = {e.step.id: e.step for _, e in events if type(e).__name__ == "Asked"}
        valid = {e.candidate_id for _, e in events if isinstance(e, Judged) and e.evaluation.valid}
        for _, event in events:
            if isinstance(event, Proposed) and steps[event.step_id].failing:
                step = steps[event.step_id]
                place = task, repeat, step.round, step.sample
                failing.add(place)
                mended |= {place} if event.candidate.id in valid else set()
            if isinstance(event, QueryAnswered) and steps[event.step_id].failing:
                usd += event.answer.usd or 0.0
    (row,) = [one for one in rows(drawn, "repairs-cost") if one["contender"] == "pike-b"]
    assert (int(row["failing"]), int(row["repaired"])) == (len(failing), len(mended))
    assert len(failing) > len(mended) > 0
    assert float(row["usd_each"]) == pytest.approx(usd / len(mended), rel=1e-5)


def test_time_is_that_of_queries_and_stages(simulated: Path, drawn: Path) -> None:
    asking, building = 0.0, 0.0
    for _, _, events in runs(simulated, "stark"):
        sent = {}
        for at, event in events:
            if isinstance(event, QuerySent):
                sent[event.query.step_id] = at
            if isinstance(event, QueryAnswered):
                asking += at - sent[event.step_id]
            if isinstance(event, Judged):
                building += sum(seconds for name, seconds in event.evaluation.seconds if name in ("build", "load"))
    shown = {one["work"]: float(one["hours"]) for one in rows(drawn, "time") if one["contender"] == "stark"}
    assert shown["queries"] == pytest.approx(asking / 3600, rel=1e-4)
    assert shown["building"] == pytest.approx(building / 3600, rel=1e-4)


def test_occupancy_adds_up_to_the_time_of_a_run_alone(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path / "c", Scale(tasks=("one",), presets=("pike-b",), repeats=1, queries=12))
    draw_all([campaign], tmp_path / "out", ["svg"], DrawingTerms(only=["time"]))
    bins = rows(tmp_path / "out", "occupancy")
    asked = [one for one in bins if one["work"] == "queries"]
    width = 2 * float(asked[0]["minutes"])
    hours = {one["work"]: float(one["hours"]) for one in rows(tmp_path / "out", "time")}
    assert sum(float(one["mean_at_once"]) * width / 60 for one in asked) == pytest.approx(hours["queries"], rel=1e-3)


def test_success_says_arithmetic_means_and_rates(simulated: Path, drawn: Path) -> None:
    (row,) = [one for one in rows(drawn, "success") if one["contender"] == "stark"]
    found = [one for tasks in finals(simulated, "stark").values() for one in tasks.values()]
    judged = [
        e.evaluation
        for _, _, events in runs(simulated, "stark")
        for _, e in events
        if isinstance(e, Judged) and e.effort is Effort.SEARCH
    ]
    assert float(row["mean_speed"]) == pytest.approx(statistics.fmean(found), rel=1e-5)
    assert float(row["correct"]) == pytest.approx(sum(one.valid for one in judged) / len(judged), rel=1e-5)
    assert float(row["compiles"]) == pytest.approx(
        sum(one.status != "build-error" for one in judged) / len(judged), rel=1e-5
    )
    compiled = {result.task: result.speedup for result in read_results([simulated])}
    over = [
        speedup > compiled[task] for tasks in finals(simulated, "stark").values() for task, speedup in tasks.items()
    ]
    assert float(row["fast1_compile"]) == pytest.approx(sum(over) / len(over), rel=1e-5)


def test_the_path_to_the_best_leads_back_to_the_original(drawn: Path) -> None:
    nodes = {one["candidate"]: one for one in rows(drawn, "tree-pike-b")}
    path = [one for one in nodes.values() if one["on_best_path"] == "1"]
    assert len(path) > 1
    assert sum(one["seed"] == "original" for one in path) == 1
    assert all(one["seed"] == "original" or nodes[one["seed"]]["on_best_path"] == "1" for one in path)


def test_islands_are_known_from_a_repetition_of_the_search(tmp_path: Path) -> None:
    pytest.importorskip("openevolve")
    campaign = write_campaign(tmp_path / "c", Scale(tasks=("one",), presets=("pike-o",), repeats=1, queries=60))
    pike.figures(campaign, tmp_path / "out", formats=["svg"], only=["tree"])
    found = rows(tmp_path / "out", "islands-pike-o")
    judged = [e for _, _, events in runs(campaign, "pike-o") for _, e in events if isinstance(e, Judged)]
    valid = {e.candidate_id for e in judged if e.effort is Effort.SEARCH and e.evaluation.valid}
    assert {one["candidate"] for one in found} == valid
    assert len({one["island"] for one in found}) > 1
    for island in {one["island"] for one in found}:
        mine = [one for one in found if one["island"] == island]
        assert float(mine[-1]["best"]) == max(float(one["speedup"]) for one in mine)


def test_published_numbers_are_a_second_series_only_on_request(simulated: Path, drawn: Path, tmp_path: Path) -> None:
    draw_all([simulated], tmp_path, ["svg"], DrawingTerms(only=["speedups"]))
    assert {one["source"] for one in rows(tmp_path, "speedups")} == {"measured"}
    named = {(one["contender"], one["at"]): one for one in rows(drawn, "speedups") if one["source"] != "measured"}
    assert float(named["PIKE-B", "end"]["speedup"]) == 2.88
    assert float(named["PIKE-O mut,npar,1isl,eo,sl", "$25 a task"]["speedup"]) == 2.33
    assert {one["source"] for one in named.values()} == {"arXiv 2511.16964"}
    (stark,) = [one for one in rows(drawn, "success") if one["contender"] == "STARK, KernelBench level3"]
    assert (float(stark["fast1_eager"]), float(stark["mean_speed"])) == (0.875, 1.58)


def test_the_same_campaign_named_twice_is_repeats(simulated: Path, tmp_path: Path) -> None:
    draw_all([simulated, simulated], tmp_path, ["svg"], DrawingTerms(only=["speedups"]))
    assert {one["repeats"] for one in rows(tmp_path, "speedups") if one["contender"] == "stark"} == {"4"}


def test_a_run_that_goes_on_is_drawn_as_far_as_it_got(tmp_path: Path) -> None:
    with Journal.create(tmp_path / "run") as journal:
        for event in whole_run()[:12]:
            journal.append(event, durable=False)
        found = {entry.name: entry for entry in draw_all([tmp_path / "run"], tmp_path / "out", ["svg"])}
    assert found["tree"].files and found["time"].files
    assert "prompt.profile=true" in found["roofline"].missing


def test_a_campaign_with_a_run_that_only_began_can_be_listed(tmp_path: Path) -> None:
    start = whole_run()[0]
    assert isinstance(start, RunStarted)
    with Journal.create(tmp_path / "run") as journal:
        journal.append(start)
    missing = {entry.kind for entry in list_all([tmp_path / "run"]) if entry.missing}
    assert {"repairs", "steps", "code-size", "tree", "roofline"} <= missing


KERNEL = 'x = load_inline(name="k", cpp_sources="", cuda_sources="")\n'


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (KERNEL, ("CUDA",)),
        ('SOURCE = "__global__ void k() {}"', ("CUDA",)),
        ('x = cpp.load_inline(name="k", cpp_sources="")', ("C++",)),
        ("import triton.language as tl\ng = torch.cuda.CUDAGraph()", ("Triton", "CUDA graph")),
        ("f = torch.compile(f)", ("torch.compile",)),
        ("y = torch.nn.functional.relu(x)  # torch.compile", ("library calls",)),
        ("def f(:", ()),
    ],
)
def test_techniques_are_read_from_the_syntax_tree(source: str, found: tuple[str, ...]) -> None:
    assert techniques(source) == found


def test_similarity_is_one_for_equal_code_and_falls_with_changes() -> None:
    code = "a = b + c\nd = a * 2\n"
    assert similarity(code, "a = b + c  # note\n\nd = a * 2\n") == 1.0
    assert similarity(code, "import os\nprint(os)\n") == 0.0
    assert 0.0 < similarity(code, "a = b + c\nd = a * 3\n") < 1.0


def test_changed_lines_need_a_known_seed() -> None:
    assert facts("a\nb\n", "a\nc\n").changed == 2
    assert facts("a\n", "").changed is None


def test_tables_escape_what_their_languages_mean() -> None:
    body = [[TextCell("a_b & c|d"), TextCell("2.31×", True)]]
    assert markdown(["x", "y"], body) == "| x | y |\n| --- | ---: |\n| a_b & c\\|d | **2.31×** |\n"
    assert r"a\_b \& c|d & \textbf{2.31$\times$} \\" in latex(["x", "y"], body)


def test_names_are_data_and_no_formulas(tmp_path: Path) -> None:
    hostile = r"own/$\frac{x$ & <b>_"
    campaign = write_campaign(tmp_path / "c", Scale(tasks=(hostile,), presets=("stark",), repeats=1, queries=12))
    found = draw_all([campaign], tmp_path / "out", ["svg"])
    drawn = {entry.name for entry in found if entry.files}
    assert drawn >= {"tasks", "tree", "roofline", "kernels"}
    picture = (tmp_path / "out" / "tasks.svg").read_text()
    assert "$\\frac{x$ &amp; &lt;b&gt;_" in picture and "<b>" not in picture
    assert not [path.name for path in (tmp_path / "out").glob("*.svg") if "mathdefault" in path.read_text()]
    assert r"\$\textbackslash{}frac\{x\$ \& <b>\_" in (tmp_path / "out" / "tasks.tex").read_text()
