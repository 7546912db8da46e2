"""Judging on another machine: what waits is bundled, judged elsewhere, and told; nothing is judged here."""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import campaign_material
import pytest
from engine_material import TASK, RuledJudge, config, events, wiring
from engine_material import answer as fenced

from pike import engine
from pike.api.bare import bundles
from pike.cli import main
from pike.core.device import DeviceFacts
from pike.core.errors import StoreError, UserError
from pike.core.events import Judged, QueryAnswered
from pike.core.settings.config import EngineConfig
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest, Status
from pike.engine.executors.contract import evaluate_finally
from pike.engine.executors.instant import instant_verdict
from pike.engine.executors.pool import WorkerPool
from pike.engine.external import batch, external_run
from pike.engine.external.bundle import Verdict, read_bundle, read_verdicts, source_digest
from pike.engine.external.elsewhere import VerdictsElsewhere, tell_verdicts
from pike.engine.external.judging import JudgedBundles, judge_bundles
from pike.tasks.files import task_files

IN_FLIGHT = 3
TIMES = {0: "valid 4ms final 5ms", 1: "wrong-output off", 2: "valid 2ms final 2.5ms"}


def forbidden(request: EvaluationRequest) -> Evaluation:
    raise AssertionError(f"judged here: {request.source}")


def here() -> engine.Wiring:
    return wiring(executor=None)


async def begin(folder: Path, queries: int = IN_FLIGHT, task: Task = TASK, **more: Any) -> None:
    await engine.start(task, config("by-hand", queries, IN_FLIGHT, strategy="best-of-n", **more), folder, wiring())
    await batch.ask_runs(folder, wiring())


def write(answers: Path, times: dict[int, str] = TIMES) -> Path:
    answers.mkdir(parents=True, exist_ok=True)
    for step, instant in times.items():
        (answers / f"step-{step}.md").write_text(fenced(instant, f"for step {step}"))
    return answers


async def judged(bundle: Path, out: Path, executor: Any = None, **more: Any) -> JudgedBundles:
    return await judge_bundles({bundle: out}, EngineConfig(), executor=executor or engine.InstantExecutor(), **more)


class ListingWorker:
    """Keeps the tasks that it was given, in order; its verdicts are the instant ones."""

    def __init__(self, tasks: list[str]) -> None:
        self.tasks = tasks

    def evaluate_together(self, requests: Sequence[EvaluationRequest], on_stage: object = None) -> list[Evaluation]:
        self.tasks += [request.task.id for request in requests]
        return [instant_verdict(request) for request in requests]

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts("cpu", "instant")

    def release(self) -> None:
        pass

    kill = close = release


def searched(folder: Path) -> list[Any]:
    return [
        (e.candidate_id, e.evaluation.status, e.evaluation.speedup) for e in events(folder) if isinstance(e, Judged)
    ]


async def test_a_run_whose_candidates_are_judged_elsewhere_ends_as_one_that_is_judged_here(tmp_path: Path) -> None:
    run, other, answers = tmp_path / "run", tmp_path / "other", write(tmp_path / "answers")
    await begin(other)
    await batch.tell_runs(other, answers, wiring())
    await begin(run)
    first = await batch.bundle_runs(run, answers, tmp_path / "1.bundle", here())
    assert first.candidates == {"": IN_FLIGHT}
    assert not [event for event in events(run) if isinstance(event, Judged)]

    assert (await judged(tmp_path / "1.bundle", tmp_path / "1.jsonl")).judged == IN_FLIGHT
    told = await tell_verdicts({"": run}, tmp_path / "1.jsonl", here())
    assert [reply.solution.evaluation.status.value for reply in told[""] if reply.solution] == [
        "valid",
        "wrong-output",
        "valid",
    ]

    # The budget is spent, so the finalists wait next: they are judged together.
    await batch.bundle_runs(run, None, tmp_path / "2.bundle", here())
    (finals,) = read_bundle(tmp_path / "2.bundle").waiting
    assert [one.effort for one in finals.requests] == [Effort.FINAL] * 2
    await judged(tmp_path / "2.bundle", tmp_path / "2.jsonl")
    told = await tell_verdicts({"": run}, tmp_path / "2.jsonl", here())
    assert told[""][-1].status.result.finished
    assert sorted(searched(run)) == sorted(searched(other))
    assert sum(isinstance(event, QueryAnswered) for event in events(run)) == IN_FLIGHT
    before = events(run)
    for verdicts in ("1.jsonl", "2.jsonl"):
        await tell_verdicts({"": run}, tmp_path / verdicts, here())
    assert events(run) == before


async def test_a_file_without_a_verdict_is_said_to_hold_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, bundle, out = tmp_path / "run", tmp_path / "run.bundle", tmp_path / "out.jsonl"
    await begin(run)
    await batch.bundle_runs(run, write(tmp_path / "answers"), bundle, here())
    await judged(bundle, out)
    out.write_text(out.read_text().splitlines(keepends=True)[0])
    assert await asyncio.to_thread(main.run, ["tell", str(run), str(out)]) == 0
    assert "holds no verdict yet" in " ".join(capsys.readouterr().out.split())


async def test_a_baseline_that_is_asked_for_again_finds_the_verdict_of_its_group() -> None:
    requests = [
        EvaluationRequest(TASK, "best", effort=Effort.FINAL),
        EvaluationRequest(TASK, "way", effort=Effort.BESIDE),
    ]
    found = Evaluation(Status.WRONG_OUTPUT, "off"), Evaluation(Status.UNTRUSTED_TIMING, "busy")
    sources = tuple(source_digest(one.source) for one in requests)
    verdict = Verdict(0, "", "", EvaluateOptions(), Effort.FINAL, sources, found)
    there = VerdictsElsewhere(DeviceFacts("cpu", "instant"), [verdict])
    assert await evaluate_finally(there, requests, None) == [*found]
    assert not there.waiting


async def test_several_bundles_are_judged_by_one_pool_and_keep_their_verdicts_apart(tmp_path: Path) -> None:
    runs, files, tasks = [tmp_path / name for name in ("one", "two")], dict[Path, Path](), list[str]()
    for run, task in zip(runs, (TASK, replace(TASK, id="other")), strict=True):
        await begin(run, task=task)
        files[tmp_path / f"{run.name}.bundle"] = tmp_path / f"{run.name}.jsonl"
        await batch.bundle_runs(run, write(tmp_path / "answers"), tmp_path / f"{run.name}.bundle", here())
    await judged(*next(iter(files.items())))
    pool, told = WorkerPool([lambda: ListingWorker(tasks)], 1), list[str]()
    found = await judge_bundles(
        files, EngineConfig(), executor=pool, on_verdict=lambda path, *_: told.append(path.name)
    )
    assert (found.judged, found.total, tasks, told) == (6, 6, ["other"] * 3, ["two.bundle"] * 3)
    for run, verdicts in zip(runs, files.values(), strict=True):
        assert len((await tell_verdicts({"": run}, verdicts, here()))[""]) == 3


def test_each_bundle_has_a_file_of_verdicts_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert bundles.verdict_files("a/one.bundle", "out") == {Path("a/one.bundle"): Path("out")}
    two = ["a/one.bundle", "b/one.bundle"]
    assert [*bundles.verdict_files(two).values()] == [Path(f"{one}.verdicts.jsonl") for one in two]
    with pytest.raises(UserError, match="given twice"):
        bundles.verdict_files(["a/one.bundle", tmp_path / "a/one.bundle"])
    with pytest.raises(UserError, match="--out is for the verdicts of one bundle"):
        bundles.verdict_files(two, "out")


async def test_a_time_limit_keeps_what_is_judged_and_the_next_call_goes_on(tmp_path: Path) -> None:
    run, bundle, out = tmp_path / "run", tmp_path / "run.bundle", tmp_path / "out.jsonl"
    await begin(run)
    await batch.bundle_runs(run, write(tmp_path / "answers"), bundle, here())
    asked: list[str] = []

    class Slow(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: Any = None) -> Evaluation:
            asked.append(request.source)
            if len(asked) == 2:
                await asyncio.sleep(3600)
            return await super().evaluate(request, on_stage)

    found = await judged(bundle, out, Slow(), seconds=0.3)
    assert (found.judged, found.total) == (2, 3)
    with out.open("a") as file:  # a process that was killed leaves half a line
        file.write('{"record": {"ki')
    assert len((await tell_verdicts({"": run}, out, here()))[""]) == 2
    assert len([event for event in events(run) if isinstance(event, Judged)]) == 2

    found = await judged(bundle, out, Slow())
    assert (found.judged, len(asked)) == (3, 4)
    assert len(read_verdicts(out)[1]) == 3
    await tell_verdicts({"": run}, out, here())
    assert len({id_ for id_, *_ in searched(run)}) == 3


async def test_what_a_judge_failed_on_is_tried_again(tmp_path: Path) -> None:
    run, bundle, out = tmp_path / "run", tmp_path / "run.bundle", tmp_path / "out.jsonl"
    await begin(run)
    await batch.bundle_runs(run, write(tmp_path / "answers"), bundle, here())
    failing = RuledJudge(lambda one: Evaluation(Status.INFRA_ERROR, "gone") if "for step 1" in one.source else None)
    await judged(bundle, out, failing)
    await judged(bundle, out)
    verdicts = read_verdicts(out)[1]
    assert sorted(one.evaluations[0].status.value for one in verdicts) == ["valid", "valid", "wrong-output"]


async def test_a_run_that_waits_for_another_machine_judges_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    run, answers = tmp_path / "run", write(tmp_path / "answers", {0: TIMES[0]})
    await begin(run)
    await batch.bundle_runs(run, answers, tmp_path / "run.bundle", here())
    judge = RuledJudge(forbidden)
    assert [one.step.id for one in (await batch.ask_runs(run, wiring(executor=judge)))[""]] == [1, 2]
    write(answers)
    await batch.tell_runs(run, answers, wiring(executor=judge))
    status = external_run.status(run)
    assert (status.result.stopped, searched(run)) == ("elsewhere", [])
    assert "pike bundle" in status.result.resume_command
    assert (await batch.bundle_runs(run, None, tmp_path / "run.bundle", here())).candidates == {"": 3}
    assert (await engine.resume_run(run, wiring())).finished


Spoil = Callable[[Path, Path], Any]


def edited(run: Path, verdicts: Path) -> None:
    verdicts.write_text(verdicts.read_text().replace("wrong-output", "build-error"))


def of_another_format(run: Path, verdicts: Path) -> None:
    first, rest = verdicts.read_text().split("\n", 1)
    line = json.loads(first)
    line["record"]["format"] = 99
    verdicts.write_text(json.dumps(line) + "\n" + rest)


def without_a_line(run: Path, verdicts: Path) -> None:
    lines = verdicts.read_text().splitlines(keepends=True)
    verdicts.write_text("".join([lines[0], *lines[2:]]))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [(edited, "changed or damaged"), (without_a_line, "changed or damaged"), (of_another_format, "has format 99")],
)
async def test_a_file_that_is_not_what_was_written_is_refused(tmp_path: Path, spoil: Spoil, why: str) -> None:
    run, bundle, out = tmp_path / "run", tmp_path / "run.bundle", tmp_path / "out.jsonl"
    await begin(run)
    await batch.bundle_runs(run, write(tmp_path / "answers"), bundle, here())
    await judged(bundle, out)
    before = events(run)
    good = out.read_text()
    spoil(run, out)
    with pytest.raises(UserError, match=why):
        await tell_verdicts({"": run}, out, here())
    with pytest.raises(UserError, match="holds no verdicts, but 'bundle'"):
        await tell_verdicts({"": run}, bundle, here())
    assert events(run) == before
    out.write_text(good)
    assert len((await tell_verdicts({"": run}, out, here()))[""]) == 3


@pytest.mark.parametrize(
    ("other", "times", "why"),
    [
        ({"task": replace(TASK, source="class Model: other")}, TIMES, "another task"),
        ({"judge": {"tolerance": "paper"}}, TIMES, "other settings"),
        ({}, {0: "valid 3ms", 1: "valid 3.5ms"}, "a candidate that the run"),
    ],
)
async def test_verdicts_for_something_else_are_refused(tmp_path: Path, other: Any, times: Any, why: str) -> None:
    run, stranger, bundle, out = (tmp_path / name for name in ("run", "stranger", "a.bundle", "out.jsonl"))
    await begin(run)
    await batch.bundle_runs(run, write(tmp_path / "answers"), tmp_path / "mine.bundle", here())
    chosen = config("by-hand", 3, IN_FLIGHT, strategy="best-of-n")
    terms = replace(chosen.evaluate, **other.get("judge", {}))
    await engine.start(other.get("task", TASK), replace(chosen, evaluate=terms), stranger, wiring())
    await batch.ask_runs(stranger, wiring())
    await batch.bundle_runs(stranger, write(tmp_path / "others", times), bundle, here())
    await judged(bundle, out)
    before = events(run)
    with pytest.raises(UserError, match=why):
        await tell_verdicts({"": run}, out, here())
    with pytest.raises(UserError, match="another bundle"):
        await judged(tmp_path / "mine.bundle", out)
    assert events(run) == before


async def test_half_a_bundle_is_refused(tmp_path: Path) -> None:
    await begin(tmp_path / "run")
    bundle = tmp_path / "run.bundle"
    await batch.bundle_runs(tmp_path / "run", write(tmp_path / "answers"), bundle, here())
    lines = bundle.read_text().splitlines(keepends=True)
    bundle.write_text("".join(lines[:-1]))
    with pytest.raises(UserError, match="not whole"):
        await judged(bundle, tmp_path / "out.jsonl")


async def test_a_full_disk_ends_judging_and_keeps_the_verdicts_before_it(tmp_path: Path) -> None:
    run, bundle, out = tmp_path / "run", tmp_path / "run.bundle", tmp_path / "out.jsonl"
    await begin(run)
    await batch.bundle_runs(run, write(tmp_path / "answers"), bundle, here())
    places = itertools.count(1)

    class OneByOne(engine.InstantExecutor):
        """Fills the disk after the first verdict."""

        async def evaluate(self, request: EvaluationRequest, on_stage: Any = None) -> Evaluation:
            place = next(places)
            while len(out.read_text().splitlines()) < place:
                await asyncio.sleep(0)
            if place == 2:
                resource.setrlimit(resource.RLIMIT_FSIZE, (out.stat().st_size + 9, limits[1]))
            return await super().evaluate(request, on_stage)

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(StoreError, match="those before are kept"):
            await judged(bundle, out, OneByOne())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(read_verdicts(out)[1]) == 1
    assert out.read_text().endswith("}\n"), "half a line stayed"
    assert (await judged(bundle, out)).judged == 3
    assert len((await tell_verdicts({"": run}, out, here()))[""]) == 3


async def test_a_bundle_names_no_path_of_its_machine_and_is_the_same_twice(tmp_path: Path) -> None:
    source = tmp_path / "secret-place" / "model.py"
    source.parent.mkdir()
    source.write_text("import parts\nclass Model: ...\n")
    (source.parent / "parts.py").write_text("WIDTH = 3\n")
    files = task_files([source, source.parent / "parts.py"], [str(source.parent)])
    task = Task("m", "m", TaskKind.SOURCE, source.read_text(), str(source), None, (str(source.parent),), files)
    await begin(tmp_path / "run", task=task)
    bundle = tmp_path / "run.bundle"
    first = await batch.bundle_runs(tmp_path / "run", write(tmp_path / "answers"), bundle, here())
    again = await batch.bundle_runs(tmp_path / "run", None, tmp_path / "again.bundle", here())
    assert first == again
    assert (tmp_path / "again.bundle").read_bytes() == bundle.read_bytes()
    assert "secret-place" not in bundle.read_text()
    assert str(tmp_path) not in bundle.read_text()


async def test_a_campaign_goes_in_one_bundle(tmp_path: Path) -> None:
    layer = campaign_material.layer(tmp_path, "by-hand", repeats=1, each=2, in_flight=2)
    layer["campaign"]["contenders"] = ["best-of-n"]
    folder = tmp_path / "campaign"
    await campaign_material.begin(folder, layer)
    asked = await batch.ask_runs(folder, wiring())
    answers = tmp_path / "answers"
    for name, several in asked.items():
        write(answers / name, {one.step.id: f"valid {2 + one.step.id}ms" for one in several})
    packed = await batch.bundle_runs(folder, answers, tmp_path / "all.bundle", here())
    assert packed.candidates == {name: len(several) for name, several in asked.items()}
    started: list[list[str]] = [[], []]
    pool = WorkerPool([lambda: ListingWorker(started[0]), lambda: ListingWorker(started[1])], 2)
    await judged(tmp_path / "all.bundle", tmp_path / "all.jsonl", pool)
    assert [len({*tasks}) for tasks in started] == [1, 1], "each judge has a task of its own"
    with pytest.raises(UserError, match="one run alone"):
        await tell_verdicts(batch.runs_of(batch.runs_of(folder)[next(iter(asked))]), tmp_path / "all.jsonl", here())
    told = await tell_verdicts(batch.runs_of(folder), tmp_path / "all.jsonl", here())
    assert {name: len(several) for name, several in told.items()} == packed.candidates
    assert all(reply.solution for several in told.values() for reply in several)
