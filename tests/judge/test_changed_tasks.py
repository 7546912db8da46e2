"""A task whose file changed gets one sentence and no verdict."""

import os
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pike.core.errors import UserError
from pike.core.task import Task
from pike.core.verdict.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, Status
from pike.judge.client import JudgeClient
from pike.judge.judge import Judge
from pike.judge.reference.task_files import TaskFiles
from pike.tasks.files import task_files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text("scale = 1\n")
    return path


@pytest.fixture
def on_a_file(task: Task, file: Path) -> Task:
    return replace(task, files=task_files([file], []))


def test_a_file_that_changed_is_named_even_if_size_and_time_are_what_they_were(on_a_file: Task, file: Path) -> None:
    files, before = TaskFiles(), file.stat()
    files.require_unchanged(on_a_file)
    file.write_text("scale = 2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(UserError, match=r"model\.py has changed"):
        files.require_unchanged(on_a_file)


def test_a_file_that_would_be_imported_instead_is_refused_once_it_is_there(task: Task, file: Path) -> None:
    file.write_text("import torch.nn, scales\n")
    (file.parent / "scales.py").touch()
    made, files = replace(task, files=task_files([file], [str(file.parent)])), TaskFiles()
    files.require_unchanged(made)
    (file.parent / "scales").mkdir()
    (file.parent / "other.py").touch()
    files.require_unchanged(made)
    for late in (file.parent / "scales" / "__init__.py", file.parent / "torch.py"):
        late.touch()
        with pytest.raises(UserError, match="has changed or come"):
            files.require_unchanged(made)
        late.unlink()


def test_a_file_that_was_restored_or_is_gone_is_no_change(on_a_file: Task, file: Path) -> None:
    files = TaskFiles()
    file.write_text("scale = 2\n")
    file.write_text("scale = 1\n")
    files.require_unchanged(on_a_file)
    file.unlink()
    files.require_unchanged(on_a_file)


def test_a_file_that_changes_before_or_during_an_evaluation_leaves_no_verdict(on_a_file: Task, file: Path) -> None:
    judge = Judge()
    request = EvaluationRequest(on_a_file, "", EvaluateOptions(device="cpu", sandbox="process", threads=1))
    try:
        assert judge.evaluate(request).status is Status.PARSE_ERROR
        with pytest.raises(UserError, match="has changed"):
            judge.evaluate(request, lambda stage: (file.write_text("scale = 3\n"), None)[1])
        with pytest.raises(UserError, match="restore or remove it"):
            judge.evaluate(request)
    finally:
        judge.close()


def test_weights_that_an_earlier_candidate_wrote_are_not_loaded(
    judge: JudgeClient, verdict: Callable[..., Evaluation], rewrite: Callable[..., str]
) -> None:
    assert verdict(rewrite()).status is Status.VALID
    for path in Path(tempfile.gettempdir()).glob(f"pike-{judge.pid}-*/init.pkl"):
        path.write_bytes(pickle.dumps([1]))  # a model of another width
    found = verdict(rewrite())
    assert found.status is Status.VALID, found.reason
