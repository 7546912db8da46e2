"""Many runs under one budget: shares, failures, stops, replays."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from campaign_material import VARYING, Refusing, begin, layer, queries_used, speedups, task, wiring, written
from engine_material import coa, efa, write_script
from zygote import Zygote

from pike import engine
from pike.core.comparison.campaign import CampaignFile
from pike.core.errors import UserError
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest, OnStage
from pike.engine.schedule.campaign import resume_campaign
from pike.engine.schedule.plan import make_plan, task_of
from pike.engine.schedule.progress import CampaignProgress
from pike.reporting import summarise
from pike.reporting.campaign import CellState, summarise_campaign
from pike.store.campaigns import results_of

PRICES = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 10.0}
KILLS = 8


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """On a disk in memory where there is one: thousands of synced writes are not what these tests are about."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="pike-campaign-", dir=memory) as folder:
        yield Path(folder)


async def test_every_run_is_carried_out_and_can_be_looked_at_alone(tmp_path: Path) -> None:
    seen: list[CampaignProgress] = []
    figures = await begin(tmp_path / "c", layer(tmp_path), observer=seen.append)
    assert figures.finished
    assert [cell.state for cell in figures.cells] == [CellState.FINISHED] * 8
    assert {cell.run_seed for cell in figures.cells} == {cell.run_seed for cell in figures.cells}
    assert len({cell.run_seed for cell in figures.cells}) == 8
    assert figures.spend.queries == 8 * 20
    for cell in figures.cells:
        summary = summarise(tmp_path / "c" / "runs" / cell.folder)
        assert summary.best is not None
        assert (summary.task.id, summary.config.engine.run_seed) == (cell.task, cell.run_seed)
        assert summary.best.speedup == cell.speedup
    assert max(len(progress.open) for progress in seen) == 3
    assert sum(row.finished for row in seen[-1].rows) == 8
    assert json.loads((tmp_path / "c" / "campaign.json").read_text())["finished"] is True


async def test_kept_figures_are_those_of_the_journals(tmp_path: Path) -> None:
    figures = await begin(tmp_path / "c", layer(tmp_path))
    kept = list((tmp_path / "c" / "runs").glob("*/checkpoint-figures"))
    assert len(kept) == 8
    assert summarise_campaign(tmp_path / "c") == figures
    for path in kept:
        path.unlink()
    assert summarise_campaign(tmp_path / "c") == figures


async def test_a_stop_leaves_equal_shares_and_a_resume_comes_to_the_same(tmp_path: Path) -> None:
    config = layer(tmp_path, each=40)
    await begin(tmp_path / "whole", config)

    stopped: list[int] = []

    def stop_in_the_middle(progress: CampaignProgress) -> None:
        if progress.queries >= 150 and not stopped:
            stopped.append(progress.queries)
            os.kill(os.getpid(), signal.SIGINT)

    figures = await begin(tmp_path / "c", config, observer=stop_in_the_middle, handle_signals=True)
    assert not figures.finished
    used = list(queries_used(figures))
    assert max(used) - min(used) <= 2 * 4 + 1, "two slices of a tenth"
    assert min(used) > 0
    assert (await resume_campaign(tmp_path / "c", wiring())).finished
    assert written(tmp_path / "c") == written(tmp_path / "whole")


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


def test_killed_at_any_moment_it_comes_to_the_same(zygote: Zygote, tmp_path: Path) -> None:
    config = layer(tmp_path, script=PRICES)
    order = {"folder": str(tmp_path / "c"), "campaign": config}
    assert zygote.run({**order, "folder": str(tmp_path / "whole")}) == 0
    rng = random.Random(7)
    killed = sum(zygote.run(order, kill_after_seconds=rng.uniform(0.05, 0.5)) == -9 for _ in range(KILLS))
    assert killed >= 2, "the campaign was over before it could be killed"
    assert zygote.run(order) == 0
    assert written(tmp_path / "c") == written(tmp_path / "whole")
    assert zygote.run(order) == 0
    assert written(tmp_path / "c") == written(tmp_path / "whole"), "finished runs are only read"


async def test_a_budget_in_money_is_kept_and_shared_fairly(tmp_path: Path) -> None:
    contenders = [{"name": name, "base": "pike-b", "max_output_tokens": 300} for name in ("one", "other")]
    script = write_script(tmp_path / "s.json", [{**line, "usd": 0.01} for line in VARYING], output_usd_per_mtok=40.0)
    config = layer(tmp_path, script, each=300, contenders=contenders, usd=1.6, in_flight=3)
    figures = await begin(tmp_path / "c", config)
    assert figures.finished
    assert {cell.reason for cell in figures.cells} == {"money"}
    assert 1.5 < figures.spend.usd <= 1.6
    spent = [cell.run.spend.usd if cell.run else 0.0 for cell in figures.cells]
    assert max(spent) - min(spent) <= 0.2 * 2 * 0.2 + 0.03


async def test_a_budget_in_queries_is_kept_and_what_it_leaves_out_is_said(tmp_path: Path) -> None:
    figures = await begin(tmp_path / "c", layer(tmp_path, queries=30))
    assert figures.finished
    assert 30 <= figures.spend.queries < 30 + 3
    assert {cell.reason for cell in figures.cells} == {"queries"}
    small = await begin(tmp_path / "small", layer(tmp_path, queries=3, concurrency=1))
    left = [cell for cell in small.cells if cell.state is CellState.FAILED]
    assert left
    assert all("before it began" in cell.reason for cell in left)


async def test_hours_end_it(tmp_path: Path) -> None:
    figures = await begin(tmp_path / "c", layer(tmp_path, max_hours=0.0))
    assert figures.finished
    assert {cell.reason for cell in figures.cells} == {"the campaign's hours were spent before it began"}


async def test_one_tasks_failure_is_listed_and_stops_no_other(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    tasks = [task(tmp_path, "relu"), str(broken), task(tmp_path, "tanh"), task(tmp_path, "sigmoid")]
    answers = [*VARYING, coa("valid 1ms", "never", contains="torch.sigmoid", errors=[401], text="")]
    script = write_script(tmp_path / "refusing.json", answers)
    config = layer(tmp_path, script, tasks=tasks, repeats=1, contenders=["pike-b:no-iba"])
    figures = await begin(tmp_path / "c", config, executor=Refusing("tanh"))
    assert figures.finished
    by_task = {cell.task: cell for cell in figures.cells}
    assert by_task["relu"].state is CellState.FINISHED
    assert by_task[str(broken)].state is CellState.FAILED
    assert "no task file" in by_task[str(broken)].reason
    assert "its original fails" in by_task["tanh"].reason
    assert "key" in by_task["sigmoid"].reason
    end = figures.standings[-1]
    assert (end.failed, end.runs) == (3, 4)
    assert end.unclamped is not None
    assert end.clamped.value == pytest.approx(end.unclamped.value**0.25)

    broken.write_text(Path(tasks[0]).read_text())
    write_script(tmp_path / "refusing.json", VARYING)
    mended = await resume_campaign(tmp_path / "c", wiring())
    assert {cell.state for cell in mended.cells} == {CellState.FINISHED}


async def test_a_replay_comes_to_the_same_table(tmp_path: Path) -> None:
    config = layer(tmp_path, script=PRICES, in_flight=4)
    first = await begin(tmp_path / "c", config)
    config["llm"]["coa"] = f"replay:{tmp_path / 'c'}"
    again = await begin(tmp_path / "again", config, executor=Refusing("relu"))
    assert again.standings == first.standings
    assert again.trajectories == first.trajectories
    assert speedups(again) == speedups(first)
    assert again.spend == replace(first.spend, usd=pytest.approx(first.spend.usd)), "its sum has another order"


async def test_a_campaign_is_carried_on_by_one_process(tmp_path: Path) -> None:
    config = layer(tmp_path)
    refused: list[str] = []

    async def try_it() -> None:
        try:
            await resume_campaign(tmp_path / "c", wiring())
        except UserError as error:
            refused.append(str(error))

    tries: list[asyncio.Task[None]] = []

    def observe(progress: CampaignProgress) -> None:
        if not tries:
            tries.append(asyncio.get_running_loop().create_task(try_it()))

    await begin(tmp_path / "c", config, observer=observe)
    await tries[0]
    assert "in use" in refused[0]
    with pytest.raises(UserError, match="already holds a campaign"):
        await begin(tmp_path / "c", config)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"campaign": {"tasks": []}}, "no tasks"),
        ({"campaign": {"tasks": ["demo/nothing"]}}, "no usable task"),
        ({"campaign": {"contenders": []}}, "no contenders"),
        ({"campaign": {"contenders": ["pike-bb"]}}, "did you mean 'pike-b'"),
        ({"campaign": {"contenders": [{"name": "x"}]}}, "campaign.contenders"),
        ({"campaign": {"contenders": [{"name": "x", "base": "pike-b", "fixes": 2}]}}, "contender 'x' .*strategy.fixes"),
        ({"campaign": {"contenders": [3]}}, "campaign.contenders"),
        ({"campaign": {"contenders": [{"base": "pike-b", "llm": {"coaa": "x"}}]}}, "llm.coaa"),
        ({"campaign": {"contenders": ["pike-b", "pike-b"]}}, "twice"),
        ({"campaign": {"repeats": 0}}, "campaign.repeats"),
        ({"campaign": {"repeat": 2}}, "did you mean 'repeats'"),
        ({"campaign": {"usd": "much"}}, "campaign.usd"),
        ({"campaign": {"query_cuts": [50, 10]}}, "rising"),
        ({"campaign": 3}, "table of settings"),
        ({"budgets": {}}, "did you mean 'budget'"),
        ({"llm": {"coa": "gpt"}}, "names no model"),
        ({"llm": {"coa": "replay:/nowhere"}}, "names no campaign"),
        ({"llm": {"coa": "by-hand"}, "campaign": {"usd": 5.0}}, "cannot keep its common budget"),
    ],
)
def test_a_bad_configuration_is_one_clear_sentence(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    good = CampaignFile().put(layer(tmp_path))
    make_plan(good)
    with pytest.raises(UserError, match=words):
        make_plan(good.put(change))


def test_named_strategies_join_by_name(tmp_path: Path) -> None:
    config = layer(tmp_path, contenders=["mine", "pike-b"])
    config["strategies"] = {"mine": {"base": "pike-b:no-efa", "temperature": 0.1}}
    plan = make_plan(CampaignFile().put(config))
    mine = plan.contenders[0]
    assert (mine.name, mine.strategy.preset, mine.strategy.options["temperature"]) == ("mine", "pike-b:no-efa", 0.1)


def test_a_contender_has_its_own_reasoning_effort_and_precision_and_shares_the_rest(tmp_path: Path) -> None:
    own = {"name": "thinking", "base": "pike-b", "llm": {"effort": "high"}, "precision": "tf32"}
    plan = make_plan(CampaignFile().put(layer(tmp_path, contenders=["pike-b", own], each=7)))
    usual, thinking = (plan.config_of(cell) for cell in plan.cells()[:2])
    assert (usual.llm.effort, thinking.llm.effort) != (usual.llm.effort, usual.llm.effort)
    assert (usual.llm.coa, usual.budget) == (thinking.llm.coa, thinking.budget)
    assert (usual.evaluate.precision.value, thinking.evaluate.precision.value) == ("same", "tf32")
    assert usual.strategy.options == thinking.strategy.options


def test_a_folder_is_a_suite_whose_tasks_are_found_from_anywhere(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "1_good.py").write_text(
        "N = 2\nSMALL = {'N': 1}\nclass Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    plan = make_plan(
        CampaignFile().put(layer(tmp_path, tasks=["mine", "mine:small"], repeats=1, contenders=["pike-b"]))
    )
    monkeypatch.chdir("/")
    sources = [task_of(cell.task, tmp_path).source.splitlines()[0] for cell in plan.cells()]
    assert [task.name for task in plan.tasks] == ["mine/1_good", "mine/1_good:small"]
    assert sorted(sources) == ["N = 1", "N = 2"]


def test_a_suite_stands_for_its_tasks_and_seeds_follow_names(tmp_path: Path) -> None:
    suite = make_plan(CampaignFile().put(layer(tmp_path, tasks=["demo"])))
    one = make_plan(CampaignFile().put(layer(tmp_path, tasks=["demo/gpt_block"], contenders=["pike-b"])))
    assert "demo/gpt_block" in [task.name for task in suite.tasks]
    seeds = {(c.task.name, c.contender.name, c.repeat): c.run_seed for c in suite.cells()}
    assert all(seeds[c.task.name, c.contender.name, c.repeat] == c.run_seed for c in one.cells())
    other = make_plan(CampaignFile().put(layer(tmp_path, tasks=["demo"], seed=1)))
    assert not {cell.run_seed for cell in other.cells()} & set(seeds.values())


async def test_one_strategy_with_two_fixers_and_a_baseline_stand_in_one_table_at_equal_budget(tmp_path: Path) -> None:
    answers = [coa("build-error no compiler", f"coa {n}") for n in range(5)]
    good = write_script(tmp_path / "good.json", [*answers, *[efa("valid 2ms", f"good {n}") for n in range(5)]])
    cheap = write_script(tmp_path / "cheap.json", [*answers, *[efa("valid 5ms", f"cheap {n}") for n in range(5)]])
    contenders = [
        "eager",
        {"base": "pike-b:no-iba", "pacing": {"samples": 3}},
        {"name": "cheap fixer", "base": "pike-b:no-iba", "pacing": {"samples": 3}, "llm": {"efa": cheap}},
        {"name": "half", "base": "pike-b:no-iba", "pacing": {"samples": 3}, "precision": "half"},
    ]
    config = layer(tmp_path, good, contenders=contenders, each=9, query_cuts=[9])
    figures = await begin(tmp_path / "c", config)
    assert figures.finished
    queries = {cell.contender: cell.run.spend.queries for cell in figures.cells if cell.run}
    assert queries == {"eager": 0, "pike-b:no-iba": 9, "cheap fixer": 9, "half": 9}
    at_nine, end = figures.standings[:4], figures.standings[-4:]
    for standings in (at_nine, end):
        clamped = {one.contender: one.clamped.value for one in standings}
        assert clamped["pike-b:no-iba"] == pytest.approx(5.0)
        assert clamped["cheap fixer"] == pytest.approx(2.0)
        assert clamped["eager"] > 0
    assert {cell.repeat for cell in figures.cells if cell.contender == "eager"} == {0}, "it is measured once"
    journal = summarise(next((tmp_path / "c" / "runs").glob("relu--half--1-*")))
    assert journal.config.evaluate.precision.value == "half"
    kept = results_of(tmp_path / "c")
    assert {one.contender.name for one in kept.values()} == set(queries)
    assert kept[next(cell.folder for cell in figures.cells if cell.contender == "cheap fixer")].contender.llm
    asked = len((tmp_path / "c" / f"results-{time.strftime('%Y%m%d')}.jsonl").read_text().splitlines())
    assert (await resume_campaign(tmp_path / "c", wiring())).standings == figures.standings
    assert len((tmp_path / "c" / f"results-{time.strftime('%Y%m%d')}.jsonl").read_text().splitlines()) == asked

    config["llm"]["coa"] = f"replay:{tmp_path / 'c'}"
    again = await begin(tmp_path / "again", config, executor=Refusing("relu"))
    assert again.standings == figures.standings, "a replay takes baselines from the campaign too"


async def test_several_precisions_are_columns_of_their_own(tmp_path: Path) -> None:
    config = layer(tmp_path, contenders=["compile"], precision=["same", "half"])
    figures = await begin(tmp_path / "c", config)
    assert {cell.contender for cell in figures.cells} == {"compile (same)", "compile (half)"}
    assert len(figures.cells) == 4 and figures.finished


class Broken(engine.InstantExecutor):
    """A judge with a bug."""

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        if request.task.id == "tanh":
            raise RuntimeError("list index out of range")
        return await super().evaluate(request, on_stage)


async def test_a_bug_in_one_cell_is_its_failure_and_ends_no_other(tmp_path: Path) -> None:
    contenders = ["eager", "pike-b:no-iba"]
    figures = await begin(tmp_path / "c", layer(tmp_path, contenders=contenders, repeats=1), executor=Broken())
    states = {(cell.task, cell.contender): (cell.state, cell.reason) for cell in figures.cells}
    assert {states["relu", name][0] for name in contenders} == {CellState.FINISHED}
    failed = (CellState.FAILED, "RuntimeError: list index out of range")
    assert {states["tanh", name] for name in contenders} == {failed}
    mended = await resume_campaign(tmp_path / "c", wiring())
    assert {cell.state for cell in mended.cells} == {CellState.FINISHED}
