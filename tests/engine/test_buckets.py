"""The winner of a run at other batch sizes, with the instant judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from engine_material import TASK, RuledJudge, config, wiring
from torch import nn

from pike import engine
from pike.core.accounts import Uncertain
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.settings.budget import Spend
from pike.core.step import Candidate
from pike.core.task import Task
from pike.core.verdict.evaluation import Evaluation, EvaluationRequest, Status, Timing
from pike.engine.output import best_file
from pike.engine.tools.buckets import Bucket, best_files, judge_buckets
from pike.store.schema import FILE_NAME
from pike.tasks import from_module

LINES = "".join(f"    something_that_tells = {number}\n" for number in range(9))
SOURCE = f"import torch\n# pike-instant: valid 4ms\nclass ModelNew(torch.nn.Module):\n{LINES}"
FAST = Evaluation(Status.VALID, timing=Timing(10.0, 4.0, 2.5, (2.4, 2.6), 10, 100, 0.0))


def result_with(folder: Path, best: Candidate | None) -> engine.RunResult:
    """A finished run with this winner."""
    return engine.RunResult(
        *("demo/tiny", "Tiny", str(folder), "pike-b", (), True, "done", best, FAST if best else None, (), Spend()),
        *(Uncertain(), config().budget, (), 1, 1, 0.0, DeviceFacts("cpu", "cpu (test)"), "0"),
    )


def tasks(*sizes: int) -> dict[int, Callable[[Path], Task]]:
    """The tiny task at some sizes; nothing can be drawn for three rows."""

    def make(size: int, folder: Path) -> Task:
        if size == 3:
            raise UserError("The inputs cannot be drawn")
        folder.mkdir(parents=True)
        return replace(TASK, id=f"tiny of {size}")

    return {size: partial(make, size) for size in sizes}


async def test_each_size_is_judged_by_itself(tmp_path: Path) -> None:
    def rule(request: EvaluationRequest) -> Evaluation | None:
        if request.task.id == "tiny of 16":
            return Evaluation(Status.VALID, timing=Timing(10.0, 20.0, 0.5, (0.4, 0.6), 10, 100, 0.0))
        return Evaluation(Status.WRONG_OUTPUT, "off by 3") if request.task.id == "tiny of 8" else None

    (tmp_path / FILE_NAME).touch()
    result = result_with(tmp_path, Candidate("c7", SOURCE, author="me"))
    parts = wiring(executor=RuledJudge(rule))
    one, three, eight, slow, many = await judge_buckets(result, config(), tasks(1, 3, 8, 16, 32), parts)
    assert (one.batch, one.speedup, one.why) == (1, 2.5, "")
    assert (three.speedup, three.why, three.folder) == (None, "The inputs cannot be drawn", None)
    assert eight.folder == tmp_path / "batch-8" and eight.folder.is_dir()
    assert (eight.speedup, eight.why) == (None, "No candidate was valid (wrong-output)")
    assert (slow.speedup, slow.why) == (None, "the winner is not certainly faster there: 0.50×, 0.40 to 0.60")
    assert best_files(tmp_path) == [one.folder / "best.py", many.folder / "best.py"]
    verdict = best_file.read(many.folder / "best.py").evaluation
    assert (verdict.speedup, verdict.labels) == (2.5, ()), "a bucket borrows nothing from its neighbours"


@pytest.mark.parametrize(
    ("candidates", "stopped", "why"),
    [
        (1, "hours", "the search found nothing faster"),
        (0, "hours", "the search tried nothing before its time ran out: give a larger max_minutes"),
        (0, "exhausted", "the search tried nothing before it ended (exhausted)"),
    ],
)
async def test_without_a_winner_nothing_is_judged(tmp_path: Path, candidates: int, stopped: str, why: str) -> None:
    result = replace(result_with(tmp_path, None), candidates=candidates, stopped=stopped)
    assert await judge_buckets(result, config(), tasks(1), wiring()) == (Bucket(1, None, None, why),)
    assert list(tmp_path.iterdir()) == []


async def test_a_composition_of_recipes_is_written_for_the_size(tmp_path: Path) -> None:
    seen = list[str]()

    def rule(request: EvaluationRequest) -> Evaluation:
        seen.append(request.source)
        return FAST

    def images(folder: Path) -> Task:
        return from_module(nn.Sequential(nn.Conv2d(3, 4, 3)).eval(), (torch.randn(2, 3, 8, 8),), {}, folder=folder)

    best = Candidate("c7", "the file for another size", recipes=("channels_last",))
    (bucket,) = await judge_buckets(
        result_with(tmp_path, best), config(), {2: images}, wiring(executor=RuledJudge(rule))
    )
    assert bucket.speedup == 2.5
    assert all("channels_last" in source for source in seen)
