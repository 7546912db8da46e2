"""Figures of results files, and the pages that are generated from them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import results_page
from pages import drawn
from pages.chart import bars_of, chart
from pages.cold import read_cold
from pages.index_page import index_page, published_page
from pages.published import PublishedFigures, read_published
from pages.suite_page import Context, clamped_over, page_name, suite_page

from pike.baselines.catalogue import BASELINES
from pike.core.comparison.contender import Contender, ContenderKind
from pike.core.comparison.results import Provenance, Result, latest
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.verdict.evaluation import (
    DeviceState,
    Effort,
    EvaluateOptions,
    Evaluation,
    Precision,
    Status,
    Timing,
)
from pike.reporting.results import tables
from pike.store import append_result, read_results

ROOT = Path(__file__).resolve().parents[2]
H100 = DeviceFacts("cuda:0", "NVIDIA H100 80GB HBM3", versions=(("torch", "2.11"), ("driver", "580.1")))
PLACE = Provenance(
    H100, EvaluateOptions("cuda:0"), Effort.SEARCH, "0.1.0", "abc123", "pike suite", "2026-01-01T00:00:00+00:00"
)
NONE = PublishedFigures()
RECIPES = Contender("recipes", ContenderKind.RECIPES)
AUTOTUNE = Contender("compile:max-autotune", ContenderKind.BASELINE)
TENSORRT = Contender("tensorrt", ContenderKind.BASELINE)


def valid(speedup: float, low: float | None = None) -> Evaluation:
    bounds = (low or speedup * 0.99, speedup * 1.01)
    timing = Timing(6.0, 6.0 / speedup, speedup, bounds, 6, 60, 0.1, state=DeviceState(1980.0, 1900.0))
    seconds = (("build", 2.0), ("load", 1.0), ("correct", 9.0), ("first-call", 4.0))
    return Evaluation(Status.VALID, timing=timing, seconds=seconds)


def result(task: str, who: Contender, verdict: Evaluation | None, **more: Any) -> Result:
    missing = "" if verdict else "torch_tensorrt cannot be imported: <b>no</b>"
    return Result(f"level3-pike/{task}", "d", Precision.HALF, who, PLACE, "c", verdict, missing, **more)


def page_of(
    found: Sequence[Result],
    published: PublishedFigures = NONE,
    members: Mapping[str, str] = {},
    baselines: Sequence[str] = (),
) -> str:
    """The page of the one suite and device in `found`."""
    return suite_page(tables(found, members, baselines), Context(published, "make page", members))


WRONG = Evaluation(Status.WRONG_OUTPUT, "output 0 is | off by `3`", seconds=(("build", 1.0), ("correct", 5.0)))
RESULTS = (
    result("10_ResNet101", RECIPES, valid(4.0), recipes=("half", "freeze"), seconds=24.0),
    result("9_ResNet18", RECIPES, valid(0.5), recipes=("half",), seconds=18.0),
    result("1_MLP", RECIPES, WRONG, seconds=12.0),
    result("10_ResNet101", AUTOTUNE, valid(2.0), seconds=36.0),
    result("9_ResNet18", AUTOTUNE, valid(0.985, low=0.9)),
    result("9_ResNet18", TENSORRT, None),
)


def test_a_failed_and_a_slower_task_count_as_one_in_the_clamped_geomean_only() -> None:
    (table,) = tables(RESULTS)
    assert table.tasks == ("level3-pike/1_MLP", "level3-pike/9_ResNet18", "level3-pike/10_ResNet101")
    recipes, autotune, tensorrt = table.columns
    assert recipes.clamped == pytest.approx(4.0 ** (1 / 3))
    assert recipes.raw == pytest.approx(math.sqrt(4.0 * 0.5))
    assert (recipes.tried, recipes.valid, recipes.slower) == (3, 2, 1)
    assert recipes.build_seconds == pytest.approx(7.0), "build, load and the first call"
    assert (autotune.tried, autotune.slower) == (2, 0), "its interval reaches eager's speed"
    assert tensorrt.clamped is None and tensorrt.raw is None and tensorrt.missing
    assert table.eager_ms("level3-pike/9_ResNet18") == pytest.approx(6.0)


def test_contenders_are_compared_with_recipes_by_their_times() -> None:
    """A host on which eager is slow flatters no contender; eager stands for recipes that found nothing."""
    (table,) = tables(RESULTS)
    recipes, autotune, tensorrt = table.columns
    assert (recipes.behind, recipes.compared, tensorrt.behind) == (None, 0, None)
    assert autotune.behind == pytest.approx(math.sqrt((4.0 / 2.0) * (0.5 / 0.985))) and autotune.compared == 2
    kept = result("10_ResNet101", RECIPES, valid(0.9), original=True)
    (table,) = tables([kept, *RESULTS[1:]])
    assert table.columns[1].behind == pytest.approx(math.sqrt((1.0 / 2.0) * (0.5 / 0.985)))


def test_recipes_are_compared_with_the_fastest_baseline_of_each_task() -> None:
    graph, eager = Contender("cuda-graph", ContenderKind.BASELINE), Contender("eager", ContenderKind.BASELINE)
    more = [
        result("10_ResNet101", graph, valid(3.0)),
        result("9_ResNet18", graph, WRONG),
        result("9_ResNet18", eager, valid(1.0)),
    ]
    (table,) = tables([*RESULTS, *more])
    assert table.leads(table.columns[0]) == pytest.approx([0.5 / 0.985, 4.0 / 3.0])
    assert "| 1.01× (2) | 0.82× (2; behind on 1) |" in index_page([table], Context(NONE, "x", {}))
    page = page_of([*RESULTS, *more])
    assert "takes 0.82 times as long as recipes;\n  recipes are behind on 1 of 2 tasks." in page


def test_tasks_with_families_have_figures_by_half_and_family() -> None:
    page = page_of([replace(one, family="convnet") for one in RESULTS])
    assert "| convnet | 3 | 1.59× | 1.41× | – | 1.01× (2; behind on 1) |" in page
    assert "| developed on | " in page and "| held out | " in page
    assert "convnet" not in page_of(RESULTS) and "held out" not in page_of(RESULTS)


def test_precisions_devices_and_small_variants_are_tables_of_their_own() -> None:
    small = replace(RESULTS[0], task="level3-pike/9_ResNet18:small")
    same = replace(RESULTS[0], precision=Precision.SAME)
    h200 = replace(RESULTS[0], provenance=replace(PLACE, device=replace(H100, name="NVIDIA H200")))
    given = latest([*RESULTS, h200, small, same])
    found = [(table.suite, table.device.split()[1], table.precision.value) for table in tables(given)]
    assert found == [
        ("level3-pike", "H100", "same"),
        ("level3-pike", "H100", "half"),
        ("level3-pike", "H200", "half"),
        ("level3-pike:small", "H100", "half"),
    ]
    assert page_name(*[(one.suite, one.device) for one in tables(given)][-1]) == "level3-pike-small-h100.md"


def test_tasks_of_a_suite_that_were_not_measured_stand_in_its_tables() -> None:
    (table,) = tables(RESULTS, ["level3-pike/8_ResNetBasicBlock", "level3-pike/9_ResNet18", "level5/4_llama2"])
    assert [task.partition("/")[2].partition("_")[0] for task in table.tasks] == ["1", "8", "9", "10"]
    assert table.columns[0].tried == 3
    members = {"level3-pike/8_ResNetBasicBlock": "d"}
    page = page_of(RESULTS, members=members)
    assert "| recipes, accumulated winners | 1.59× | 1.41× | 2 of 4 | 1 | 1 | 7.0 | 0.9 | – |" in page
    assert "- recipes: its figures are over 3 of 4 tasks; clamped, with 1 for each of the others, 1.41×." in page
    assert "- compile:max-autotune: its figures are over 2 of 4 tasks.\n" in page
    place = "| [level3-pike](level3-pike-h100.md) | NVIDIA H100 80GB HBM3"
    line = f"{place} | half | 1.41× | not measured | 3 of 4 | – | 1.01× (2) |"
    assert line in index_page(tables(RESULTS, members), Context(NONE, "x", {}))


def test_baselines_that_were_not_measured_are_named_where_a_whole_suite_is_meant() -> None:
    names = ["tensorrt", "compile:max-autotune", "cuda-graph"]
    page = page_of(RESULTS, members={"level3-pike/8_ResNetBasicBlock": "d"}, baselines=names)
    assert "| cuda-graph | *not measured* |  | 0 of 4 |  |  |  |  |  |" in page
    assert page.count("| compile:max-autotune | 1.41× |") == 1
    assert (
        "| task | eager ms | compile:max-autotune | recipes, accumulated winners | tensorrt | cold, 10 minutes | recipes used |"
        in page
    )
    assert "cuda-graph" not in page_of(RESULTS, members={"level5/4_llama2": "d"}, baselines=names)


def test_results_of_a_task_that_was_changed_since_say_so() -> None:
    page = page_of(RESULTS, members={"level3-pike/10_ResNet101": "other", "level3-pike/9_ResNet18": "d"})
    (changed,) = [line for line in page.splitlines() if line.startswith("| 10_ResNet101 |")]
    (same,) = [line for line in page.splitlines() if line.startswith("| 9_ResNet18 |")]
    assert changed.count("ms, earlier text)") == 2
    assert "earlier text" not in same


def folder_of_published(tmp_path: Path) -> Path:
    (tmp_path / "geomeans.csv").write_text(
        '# About.\nsuite,contender,clamped,source\nlevel3-pike,"PIKE-B, 300 queries",2.88,arXiv\n'
    )
    (tmp_path / "level3-pike-h100.csv").write_text(
        "# Where it is from.\ntask,eager_ms,cuda_graph_ms\n1_MLP,0.02,fails\n9_ResNet18,1.2,0.4\n10_ResNet101,6.0,\n"
    )
    return tmp_path


def test_the_page_of_a_small_folder(tmp_path: Path) -> None:
    for one in RESULTS:
        append_result(tmp_path / "results" / "slice.jsonl", one)
    published = read_published(folder_of_published(tmp_path), ("level3-pike", "level5"))
    found = read_results([tmp_path / "results"])
    page = page_of(found, published)
    assert page == page_of(read_results([tmp_path / "results"]), published)
    first, known = (
        index_page(tables(found), Context(published, "make page", {})),
        published_page(published, "make page"),
    )
    for words in (
        "Generated by `make page`",
        "| recipes, accumulated winners | 1.59× (2 of 3) |",
        "| tensorrt | – |",
        "| recipes, accumulated winners | 1.59× | 1.41× | 2 of 3 | 1 | 1 | 7.0 | 0.9 | – |",
        "| compile:max-autotune | 1.41× | 1.40× | 2 of 3 | 0 | 0 | 7.0 | 0.6 | 1.01× (2) |",
        "| tensorrt | *not measured* |  | 0 of 3 |",
        "- compile:max-autotune: its figures are over 2 of 3 tasks.",
        r"- tensorrt, *not measured*: torch\_tensorrt cannot be imported: \<b\>no\</b\>",
        "| task | eager ms | published eager ms | compile:max-autotune | recipes, accumulated winners | tensorrt | cold,",
        "| 1_MLP | – | 0.0200 | – | wrong-output | – | not measured | – |",
        "| 9_ResNet18 | 6.00 | 1.20 | 0.98× (6.09 ms) | 0.50× (12.0 ms, slower) | – | not measured | half |",
        "| 10_ResNet101 | 6.00 | 6.00 | 2.00× (3.00 ms) | 4.00× (1.50 ms) | – | not measured | half + freeze |",
        r"- 1_MLP, recipes: wrong-output: output 0 is \| off by \`3\`",
        "- 5 results, 2026-01-01 to 2026-01-01: torch 2.11, driver 580.1; effort `search`, PIKE 0.1.0 at abc123.",
        "1900 to 1900 MHz",
    ):
        assert words in page, words
    link = "[level3-pike](level3-pike-h100.md)"
    assert f"| {link} | NVIDIA H100 80GB HBM3 | half | 1.59× | not measured | 3 of 3 | 1.59× | 1.01× (2) |" in first
    assert "- level3-pike (arXiv): PIKE-B, 300 queries 2.88×." in first
    assert "| level3-pike | PIKE-B, 300 queries | 2.88× | arXiv |" in known
    assert "| **clamped** |  | 1.44× |" in known
    assert "| 10_ResNet101 | 6.00 | not run |" in known


def test_a_time_that_others_disturbed_is_marked() -> None:
    """By programs on the CPU, or by kernels that ran on to their end beside what was timed."""
    calm = valid(4.0)
    assert calm.timing is not None
    crowded = replace(calm, timing=replace(calm.timing, contention=0.4))
    for verdict in (replace(calm, labels=("kernels-of-others",)), crowded):
        page = page_of([result("10_ResNet101", RECIPES, verdict)])
        assert "| 4.00× (1.50 ms, disturbed) |" in page
    assert "ms, disturbed" not in page_of([result("10_ResNet101", RECIPES, calm)])


def test_winners_of_the_gallery_stand_in_the_place_of_slower_recipes(tmp_path: Path) -> None:
    """ResNet-18 takes 1 ms instead of 12, so that the slower of two leads becomes 6.09 / 1."""
    published = read_published(folder_of_published(tmp_path), ("level3-pike",))
    who = Contender("gallery", ContenderKind.RUN)
    faster, slower = result("9_ResNet18", who, valid(6.0)), result("10_ResNet101", who, valid(2.0))
    elsewhere = replace(result("10_ResNet101", who, valid(20.0)), precision=Precision.SAME)
    for winners, words in (
        ([faster, slower, elsewhere], "[the gallery](../gallery/index.md) on 9_ResNet18 instead,"),
        (
            [faster],
            "takes 3.49 times as long as these;\n  these are behind on 0 of 2 tasks.\n"
            "  Against eager on the published tasks, these reach 1.69×, clamped.",
        ),
    ):
        assert words in suite_page(tables(RESULTS), Context(published, "make page", {}, winners=winners))
    assert "verified" not in suite_page(tables(RESULTS), Context(published, "make page", {}, winners=[slower]))


def test_recipes_stand_against_the_published_eager_of_the_same_kind_of_gpu_only(tmp_path: Path) -> None:
    """1.2 / 12.0 counts as 1, 6.0 / 1.5 as 4, a wrong answer as 1."""
    published = read_published(folder_of_published(tmp_path), ("level3-pike",))
    assert "Against eager on the published tasks, recipes reach 1.59×, clamped." in page_of(RESULTS, published)
    other = result("49_Mamba2ReturnFinalState", RECIPES, valid(4.0))
    assert "recipes reach 1.59×, clamped." in page_of([*RESULTS, other], published), "49 computes something else there"
    (table,) = tables(RESULTS)
    assert clamped_over(table, "recipes", {"level3-pike/10_ResNet101": 24.0}.get) == pytest.approx(16.0 ** (1 / 3))
    kept = result("10_ResNet101", RECIPES, valid(0.9), original=True)
    (table,) = tables([kept, *RESULTS[1:]])
    assert clamped_over(table, "recipes", lambda _: 24.0) == pytest.approx((24.0 / 12.0) ** (1 / 3)), "no gain"
    h200 = replace(PLACE, device=replace(H100, name="NVIDIA H200"))
    elsewhere = [replace(one, provenance=h200) for one in RESULTS]
    assert "published times of eager" not in page_of(elsewhere, published)
    first = index_page(tables(elsewhere), Context(published, "x", {}))
    assert "| NVIDIA H200 | half | 1.59× | not measured | 3 of 3 | – | 1.01× (2) |" in first


def test_without_results_the_page_says_so(tmp_path: Path) -> None:
    published = read_published(folder_of_published(tmp_path), ("level3-pike",))
    assert "Nothing has been measured yet." in index_page((), Context(published, "x", {}))
    with pytest.raises(UserError, match="cannot be read"):
        read_published(tmp_path / "none", ())


def test_the_chart_shows_who_was_tried_on_nearly_all_tasks() -> None:
    (table,) = tables(RESULTS)
    assert [(bar.label, round(bar.value, 2)) for bar in bars_of(table)] == [("PIKE recipes (winners)", 1.59)]
    assert chart([table]).count("<rect") == 2, "the paper and one bar"


def test_the_committed_pages_are_what_the_command_generates() -> None:
    kept = ROOT / "benchmarks" / "results"
    hosts = results_page.read_hosts(kept / "several_gpus")
    published, winners = ROOT / "benchmarks" / "published", results_page.verified_winners()
    made = results_page.pages(read_results([kept]), published, hosts=hosts, winners=winners)
    assert not results_page.outdated(made, ROOT / "docs"), "run python benchmarks/results_page.py"
    for page in (name for name in made if name.startswith("results/")):
        assert "](../assets/" in made[page], "every page of results shows figures"
    assert set(results_page.BASELINES) <= {baseline.name for baseline in BASELINES}


@pytest.mark.slow
def test_the_committed_campaign_is_drawn_whole() -> None:
    made = results_page.campaign_pages(ROOT / "benchmarks" / "results" / results_page.CAMPAIGN)
    assert not results_page.outdated(made, ROOT / "docs"), "run python benchmarks/results_page.py"
    agents = results_page.true_campaign_pages(results_page.TRUE_CAMPAIGN)
    assert not results_page.outdated(agents, ROOT / "docs"), "run python benchmarks/results_page.py"
    assert "/tree-pike-b" in agents["results/campaign-h100.md"]
    gallery = results_page.gallery_pages(results_page.GALLERY)
    assert not results_page.outdated(gallery, ROOT / "docs"), "run python benchmarks/results_page.py"
    assert "/trajectories-queries-zoo" in gallery["results/campaign-gallery.md"]
    assert "VanillaRNN" not in "".join(agents.values()), "one strategy ended on that task"
    page = made["results/campaign-cpu.md"]
    assert all(
        f"/{kind}" in page for kind in ("speedups", "trajectories-minutes", "occupancy", "tree-stark", "roofline")
    )


def test_a_figure_is_out_of_date_with_its_values_whatever_drew_it(tmp_path: Path) -> None:
    svg = "<svg><!-- Matplotlib v3.10.1 --><path d='M 1 2'/></svg>"
    made = {"a.svg": svg, "a.csv": "x\n1\n"}
    assert results_page.outdated(made, tmp_path) == ["a.svg", "a.csv"]
    (tmp_path / "a.csv").write_text("x\n2\n")
    (tmp_path / "a.svg").write_text(svg.replace("3.10.1", "3.9").replace("M 1 2", "M 1 3"))
    assert results_page.outdated(made, tmp_path) == ["a.csv"], "another version of matplotlib draws otherwise"
    (tmp_path / "a.svg").write_text(svg.replace("M 1 2", "M 1 3"))
    assert results_page.outdated(made, tmp_path) == ["a.svg", "a.csv"]


def test_bars_are_of_contenders_that_were_tried_on_nearly_all_tasks() -> None:
    (table,) = tables(RESULTS)
    found = drawn.of_table("here", table)
    assert [path for _, path in found.shown] == [
        f"assets/results/here/{kind}.svg" for kind in ("speedups", "spread", "tasks")
    ]
    assert "compile:max-autotune" not in found.files["assets/results/here/speedups.csv"]
    assert "compile:max-autotune" in found.files["assets/results/here/tasks.csv"]


def test_the_cold_column_holds_only_searches_from_nothing_of_ten_minutes(tmp_path: Path) -> None:
    row = {"task": "level3-pike/9_ResNet18", "device": H100.name, "precision": "half", "final": 3.0}
    rows = [
        row | {"began": "command", "minutes": 10.0},
        row | {"task": "level3-pike/10_ResNet101", "began": "journal", "minutes": 10.0},
        row | {"task": "level3-pike/1_MLP", "began": "command", "minutes": 2.0},
    ]
    (tmp_path / "anytime_h100.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    cold = read_cold(tmp_path)
    found = tables(RESULTS)
    page = suite_page(found, Context(NONE, "make page", {}, cold))
    assert "| recipes, accumulated winners |" in page
    assert "| recipes, cold, 10 minutes | 3.00× (1 of 3) |" in page
    assert page.count("| not measured |") == 2
    assert "| 3.00× (1 of 3) |" in index_page(found, Context(NONE, "x", {}, cold))
    assert "| not measured |" in index_page(found, Context(NONE, "x", {}))
