"""Opponents on many tasks, with judges that answer at once: what is kept, what is not measured again, what is lost."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pike import store
from pike.core.config import EngineConfig, RunConfig
from pike.core.device import DeviceFacts
from pike.core.errors import InfraError, StoreError, UserError
from pike.core.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest, Precision, Status
from pike.core.results import Result, digest, latest
from pike.core.task import Task, TaskKind
from pike.engine.commit import commit
from pike.engine.contest import Contest, Seat
from pike.engine.executors.instant import instant_verdict
from pike.engine.survey import Survey, Ways, carry_out

SOURCE = """
import torch
class Model(torch.nn.Module):
    pass
# pike-instant: valid 5ms
"""
TASKS = tuple(Task(f"made/{n}_Up", f"{n}", TaskKind.SOURCE, f"{SOURCE}# {n}", f"{n}.py") for n in (1, 2, 10))
CONFIG = RunConfig(evaluate=EvaluateOptions(device="cpu"), engine=EngineConfig(judges=2, concurrency=2))
FACTS = DeviceFacts("cpu", "made up", versions=(("torch", "1"),))


@dataclass
class FakeJudge:
    """Answers by the line in the source, and remembers what it was asked."""

    asked: list[EvaluationRequest] = field(default_factory=list)
    answer: Callable[[EvaluationRequest], Evaluation] = instant_verdict
    killed: threading.Event = field(default_factory=threading.Event)

    def evaluate(self, request: EvaluationRequest, on_stage: object = None) -> Evaluation:
        self.asked.append(request)
        return self.answer(request)

    def facts(self, device: str) -> DeviceFacts:
        return FACTS

    def kill(self) -> None:
        self.killed.set()

    def close(self) -> None:
        pass


def run(out: Path, judge: FakeJudge, wanted: Survey | None = None, facts: DeviceFacts = FACTS) -> tuple[Result, ...]:
    wanted = wanted or Survey(("eager", "compile"), (Precision.SAME, Precision.HALF), command="pike baseline made")
    return carry_out(wanted, TASKS, CONFIG, out, ways=Ways(lambda _: facts, lambda: judge))


def test_every_result_says_what_was_measured_where_and_how(tmp_path: Path) -> None:
    found = run(tmp_path, FakeJudge())
    assert len(found) == 12
    assert {path.name for path in tmp_path.iterdir()} == {
        f"made_{n}_Up_{precision}.json" for n in (1, 2, 10) for precision in ("same", "half")
    }
    result = next(one for one in found if one.cell == (FACTS.name, "made/2_Up", "half", "compile"))
    assert result.speedup == pytest.approx(2.0)
    assert result.task_digest == digest(TASKS[1].source)
    assert result.provenance.options.precision is Precision.HALF
    assert result.provenance.effort is Effort.FINAL
    assert result.provenance.command == "pike baseline made"
    assert result.provenance.date.endswith("+00:00")
    assert set(store.read_results([tmp_path])) == set(found)


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    first, again = FakeJudge(), FakeJudge()
    found = run(tmp_path, first)
    assert set(run(tmp_path, again)) == set(found)
    assert len(first.asked) == 12 and not again.asked
    more = FakeJudge()
    run(tmp_path, more, Survey(("eager", "compile:max-autotune"), (Precision.SAME,)))
    assert len(more.asked) == 3, "only the new baseline"


@pytest.mark.parametrize("change", ["task", "versions", "device", "effort", "again", "disturbed"])
def test_what_has_changed_is_measured_again(tmp_path: Path, change: str) -> None:
    wanted = Survey(("eager",), (Precision.SAME,))
    judge = FakeJudge()
    if change == "disturbed":
        judge.answer = lambda _: Evaluation(Status.UNTRUSTED_TIMING, "busy")
    run(tmp_path, judge, wanted)
    facts = FACTS
    match change:
        case "task":
            changed = tuple(replace(task, source=task.source + "# new") for task in TASKS)
            later = FakeJudge()
            carry_out(wanted, changed, CONFIG, tmp_path, ways=Ways(lambda _: FACTS, lambda: later))
            assert len(later.asked) == 3
            return
        case "versions":
            facts = replace(FACTS, versions=(("torch", "2"),))
        case "device":
            facts = replace(FACTS, name="another")
        case "effort":
            wanted = replace(wanted, effort=Effort.SEARCH)
        case "again":
            wanted = replace(wanted, again=True)
    later = FakeJudge()
    run(tmp_path, later, wanted, facts)
    assert len(later.asked) == 3
    kept = 6 if change == "device" else 3
    assert len(store.read_results([tmp_path])) == kept, "the new result takes the place of the old one of its device"


def test_a_kill_in_the_middle_loses_only_what_was_being_measured(tmp_path: Path) -> None:
    judge = FakeJudge()

    def killed_at_the_third(request: EvaluationRequest) -> Evaluation:
        if len(judge.asked) > 2:
            raise KeyboardInterrupt
        return instant_verdict(request)

    judge.answer = killed_at_the_third
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, judge)
    kept = len(store.read_results([tmp_path]))
    assert 0 < kept <= 2
    later = FakeJudge()
    assert len(run(tmp_path, later)) == 12
    assert len(later.asked) == 12 - kept


def test_a_judge_that_dies_is_replaced_and_then_blamed(tmp_path: Path) -> None:
    judge = FakeJudge()

    def dies_once(request: EvaluationRequest) -> Evaluation:
        if len(judge.asked) == 1:
            raise InfraError("gone")
        return instant_verdict(request)

    judge.answer = dies_once
    wanted = Survey(("eager",), (Precision.SAME,))
    assert all(result.speedup for result in run(tmp_path / "once", judge, wanted))

    def dies(_: EvaluationRequest) -> Evaluation:
        raise InfraError("gone")

    found = run(tmp_path / "always", FakeJudge(answer=dies), wanted)
    assert {result.evaluation.status for result in found if result.evaluation} == {Status.INFRA_ERROR}


def test_one_task_that_cannot_be_used_does_not_end_the_others(tmp_path: Path) -> None:
    def refuses_the_second(request: EvaluationRequest) -> Evaluation:
        if "2_Up" in request.task.id:
            raise UserError("zeros would pass")
        return instant_verdict(request)

    found = run(tmp_path, FakeJudge(answer=refuses_the_second), Survey(("eager",), (Precision.SAME,)))
    assert {result.missing for result in found} == {"", "the task cannot be used: zeros would pass"}
    assert sum(result.speedup is not None for result in found) == 2


def test_tensorrt_is_tried_once_and_then_known_to_be_missing(tmp_path: Path) -> None:
    def lacks(request: EvaluationRequest) -> Evaluation:
        if "need_tensorrt" in request.source:
            return Evaluation(Status.BUILD_ERROR, "ImportError: torch_tensorrt cannot be imported: no such module")
        return instant_verdict(request)

    judge = FakeJudge(answer=lacks)
    facts = replace(FACTS, device="cuda:0")
    config = replace(CONFIG, engine=EngineConfig(judges=1, concurrency=1))
    wanted = Survey(("tensorrt", "eager"), (Precision.SAME,))
    found = carry_out(wanted, TASKS, config, tmp_path, ways=Ways(lambda _: facts, lambda: judge))
    missing = [result for result in found if result.contender.name == "tensorrt"]
    assert [result.missing for result in missing] == [missing[0].missing] * 3
    assert "torch_tensorrt cannot be imported" in missing[0].missing and "extra" in missing[0].missing
    assert sum("need_tensorrt" in request.source for request in judge.asked) == 1


def test_published_solutions_are_judged_and_missing_ones_said(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "10.py").write_text("class ModelNew: pass\n# pike-instant: valid 2ms\n")
    found = run(tmp_path / "out", FakeJudge(), Survey((f"published:{folder}",), (Precision.SAME,)))
    by_task = {result.task: result for result in found}
    assert by_task["made/10_Up"].speedup == pytest.approx(5.0)
    assert by_task["made/1_Up"].missing == "published:theirs has no solution for 1_Up"
    assert {result.contender.name for result in found} == {"published:theirs"}, "no path in a results file"


@pytest.mark.parametrize(
    ("name", "words"), [("compil", "did you mean 'compile'"), ("cuda-graph", "NVIDIA GPU"), ("published:/no", "folder")]
)
def test_an_opponent_that_is_not_there_is_one_sentence(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        run(tmp_path, FakeJudge(), Survey((name,)))


class _Slow:
    """A job that ends when it is told to."""

    expected_seconds = 0.0

    def results(self, seat: Seat) -> Iterator[Result]:
        stopped = threading.Event()
        seat.guard(stopped.set)
        stopped.wait(30)
        seat.guard(lambda: None)
        yield from ()


class _TooLong:
    expected_seconds = 3600.0

    def results(self, seat: Seat) -> Iterator[Result]:
        raise AssertionError("there is not so much time left")


def test_at_the_deadline_everything_ends_and_what_was_not_done_is_named() -> None:
    slow, too_long, waiting = _Slow(), _TooLong(), _Slow()
    began = time.monotonic()
    left = Contest(1, lambda _: None, FakeJudge, seconds=0.2).run([too_long, slow, waiting])
    assert time.monotonic() - began < 20
    assert list(left) == [too_long, slow, waiting]


def test_a_disk_that_is_full_stops_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        run(tmp_path / "file" / "below", FakeJudge())


def test_lines_survive_somebody_who_was_killed_while_writing(tmp_path: Path) -> None:
    found = run(tmp_path / "out", FakeJudge(), Survey(("eager",), (Precision.SAME,)))
    path = tmp_path / "slice.jsonl"
    lines = store.ResultLines(path)
    lines.put(found[0])
    with path.open("a") as file:
        file.write('{"format":"pike-results-1","task":"ma')
    lines.put(found[1])
    assert set(store.read_results([path])) == set(found[:2])


def test_files_that_are_no_results_are_passed_over_and_bad_ones_named(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"seconds": 1}')
    (tmp_path / "list.json").write_text("[1]")
    assert store.read_results([tmp_path]) == ()
    (tmp_path / "bad.json").write_text(json.dumps({"format": "pike-results-1", "results": [{"task": 1}]}))
    with pytest.raises(UserError, match=r"bad\.json"):
        store.read_results([tmp_path])
    with pytest.raises(UserError, match="no file or folder"):
        store.read_results([tmp_path / "none"])


def test_the_newest_of_a_cell_counts(tmp_path: Path) -> None:
    one, *_ = run(tmp_path, FakeJudge(), Survey(("eager",), (Precision.SAME,)))
    older = replace(one, seconds=1.0, provenance=replace(one.provenance, date="2020-01-01T00:00:00+00:00"))
    assert latest([one, older]) == (one,) == latest([older, one])
    failed = replace(one, evaluation=Evaluation(Status.INFRA_ERROR, "the judge died"))
    absent = replace(one, evaluation=None, missing="no memory")
    for nothing in (failed, absent):
        assert latest([older, nothing]) == (older,) == latest([nothing, older]), "it says nothing about the contender"


def test_the_commit_is_that_of_the_checkout_and_nothing_elsewhere(tmp_path: Path) -> None:
    assert commit(tmp_path) == ""
    found = commit()
    assert found == "" or len(found.removesuffix("-dirty")) == 12
