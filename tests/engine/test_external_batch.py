"""Batches: every prompt that may be in flight at once, and a folder of answers for a run or a campaign."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import campaign_material
import pytest
from engine_material import TASK, RuledJudge, config, events, wiring, write_script
from engine_material import answer as fenced

from pike import engine
from pike.core.errors import UserError
from pike.core.events import Judged, QueryAnswered
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest
from pike.engine.external import batch, external_run
from pike.engine.schedule.campaign import resume_campaign

IN_FLIGHT = 3


async def begin(folder: Path, **more: Any) -> None:
    await engine.start(TASK, config("by-hand", 9, IN_FLIGHT, strategy="pike-b:no-iba", **more), folder, wiring())


def write(answers: Path, step: int, instant: str = "valid 4ms", ending: str = "md") -> Path:
    answers.mkdir(parents=True, exist_ok=True)
    path = answers / f"step-{step}.{ending}"
    path.write_text(fenced(instant, f"for step {step}"))
    return path


async def tell(folder: Path, answers: Path, **parts: Any) -> dict[str, Any]:
    return {
        name: {file.step: reply for file, reply in several}
        for name, several in (await batch.tell_runs(folder, answers, wiring(**parts))).items()
    }


async def test_every_prompt_that_may_be_in_flight_is_written_and_told_side_by_side(tmp_path: Path) -> None:
    run, answers = tmp_path / "run", tmp_path / "answers"
    await begin(run)
    asked = await batch.ask_runs(run, wiring())
    written = batch.write_prompts(answers, asked)
    assert [path.name for path in written] == [f"step-{step}.prompt.md" for step in range(IN_FLIGHT)]
    assert all("class ModelNew" in path.read_text() for path in written)
    for step in range(IN_FLIGHT):
        write(answers, step, f"valid {2 + step}ms")
    judging: list[str] = []
    together = asyncio.Event()

    class SideBySide(engine.InstantExecutor):
        async def evaluate(self, request: EvaluationRequest, on_stage: Any = None) -> Evaluation:
            judging.append(request.source)
            if len(judging) == IN_FLIGHT:
                together.set()
            await asyncio.wait_for(together.wait(), 10.0)
            return await super().evaluate(request, on_stage)

    told = (await tell(run, answers, executor=SideBySide()))[""]
    assert [reply.solution.evaluation.speedup for reply in told.values()] == [5.0, pytest.approx(10 / 3), 2.5]
    assert told[0].status.left == 9 - IN_FLIGHT


async def test_asking_again_gives_the_same_prompts_and_spends_no_more(tmp_path: Path) -> None:
    await begin(tmp_path)
    first, again = [await batch.ask_runs(tmp_path, wiring()) for _ in range(2)]
    assert [one.prompt for one in first[""]] == [one.prompt for one in again[""]]
    assert external_run.status(tmp_path).spend.queries == IN_FLIGHT


async def test_some_answers_may_come_later_and_telling_them_again_changes_nothing(tmp_path: Path) -> None:
    run, answers = tmp_path / "run", tmp_path / "answers"
    await begin(run)
    await batch.ask_runs(run, wiring())
    write(answers, 1)
    await tell(run, answers)
    write(answers, 0, "valid 2ms")
    told = (await tell(run, answers))[""]
    assert [(step, reply.known) for step, reply in told.items()] == [(0, False), (1, True)]
    before = events(run)
    again = (await tell(run, answers))[""]
    assert events(run) == before
    assert [reply.solution for reply in again.values()] == [reply.solution for reply in told.values()]
    write(answers, 1, "valid 1ms")
    other = (await tell(run, answers))[""][1]
    assert (other.solution, other.known) == (None, True)
    assert "another answer already" in other.failure
    assert events(run) == before


async def test_a_crash_in_the_middle_loses_no_answer(tmp_path: Path) -> None:
    run, answers = tmp_path / "run", tmp_path / "answers"
    await begin(run)
    await batch.ask_runs(run, wiring())
    for step in range(IN_FLIGHT):
        write(answers, step, f"valid {2 + step}ms")

    class Crash(BaseException):
        pass

    def crash(request: EvaluationRequest) -> Evaluation | None:
        if "for step 1" in request.source:
            raise Crash
        return None

    with pytest.raises(Crash):
        await tell(run, answers, executor=RuledJudge(crash))
    told = (await tell(run, answers))[""]
    assert [reply.solution.evaluation.valid for reply in told.values()] == [True] * IN_FLIGHT
    seen = [event.step_id for event in events(run) if isinstance(event, QueryAnswered)]
    judged = [event.candidate_id for event in events(run) if isinstance(event, Judged)]
    assert sorted(seen) == list(range(IN_FLIGHT))
    assert sorted(judged) == sorted(set(judged))


async def test_the_last_answers_end_the_run_and_may_be_told_again(tmp_path: Path) -> None:
    run, answers = tmp_path / "run", tmp_path / "answers"
    await engine.start(TASK, config("by-hand", 2, 2, strategy="best-of-n"), run, wiring())
    await batch.ask_runs(run, wiring())
    for step in (0, 1):
        write(answers, step, f"valid {2 + step}ms")
    told = [(await tell(run, answers))[""] for _ in range(2)]
    assert all(reply.status.result.finished for one in told for reply in one.values())


async def test_a_run_whose_other_model_is_down_has_no_prompt_and_says_how_to_go_on(tmp_path: Path) -> None:
    down = write_script(tmp_path / "s.json", [{"role": "coa", "errors": ["timeout"]}])
    models = {"efa": "by-hand", "max_attempts": 1}
    await engine.start(TASK, config(down, 99, 1, strategy="pike-b:no-iba", models=models), tmp_path / "run", wiring())
    with pytest.raises(UserError, match=r"No prompt waits for an answer in .*: continue with pike resume"):
        await batch.ask_runs(tmp_path / "run", wiring())


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "holds no answers"),
        (("step-0.prompt.md",), "holds no answers"),
        (("answer.py",), r"answer\.py names no step: call a candidate file step-N\.py"),
        (("step-0.py", "step-0.md"), "answer the same step"),
        (("step-7.md",), "Step 7 does not wait for an answer; what waits: 0, 1, 2"),
    ],
)
async def test_a_wrong_file_is_one_sentence_and_costs_nothing(
    tmp_path: Path, names: tuple[str, ...], message: str
) -> None:
    run, answers = tmp_path / "run", tmp_path / "answers"
    await begin(run)
    await batch.ask_runs(run, wiring())
    answers.mkdir()
    for name in names:
        (answers / name).write_text(fenced("valid 1ms", name))
    before = events(run)
    with pytest.raises(UserError, match=message):
        await tell(run, answers)
    assert events(run) == before


async def test_a_campaign_is_answered_as_a_folder_of_folders(tmp_path: Path) -> None:
    study, answers = tmp_path / "study", tmp_path / "answers"
    layer = campaign_material.layer(tmp_path, llm="by-hand", repeats=1, each=2, in_flight=2)
    layer["campaign"]["contenders"] = ["best-of-n"]
    begun = await campaign_material.begin(study, layer)
    assert [(cell.state.value, cell.reason) for cell in begun.cells] == [("begun", "waiting")] * 2
    asked = await batch.ask_runs(study, wiring())
    assert {name: len(several) for name, several in asked.items()} == {cell.folder: 2 for cell in begun.cells}
    batch.write_prompts(answers, asked)
    for number, name in enumerate(asked):
        for step in (0, 1):
            write(answers / name, step, f"valid {2 + number}ms")
    told = await tell(study, answers)
    assert [reply.status.result.finished for one in told.values() for reply in one.values()] == [True] * 4
    done = await resume_campaign(study, campaign_material.wiring())
    assert done.finished
    assert [cell.speedup for cell in done.cells] == [5.0, pytest.approx(10 / 3)]
    with pytest.raises(UserError, match="No prompt waits for an answer"):
        await batch.ask_runs(study, wiring())
    shutil.move(answers / begun.cells[0].folder, answers / "elsewhere")
    with pytest.raises(UserError, match="elsewhere is no folder of a run of this campaign"):
        await tell(study, answers)


async def test_a_run_that_cannot_go_on_here_keeps_no_prompt_of_the_others_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    study = tmp_path / "study"
    layer = campaign_material.layer(tmp_path, llm="by-hand", repeats=1, each=2, in_flight=2)
    layer["campaign"]["contenders"] = ["best-of-n"]
    first, second = [cell.folder for cell in (await campaign_material.begin(study, layer)).cells]
    here = external_run.ask_all

    async def ask_all(folder: Path, wires: Any) -> Any:
        if folder.name == first:
            raise UserError("its recipes are judged on another machine")
        return await here(folder, wires)

    monkeypatch.setattr(external_run, "ask_all", ask_all)
    assert list(await batch.ask_runs(study, wiring())) == [second]
    assert f"{first} has no prompt: its recipes are judged on another machine" in caplog.text
