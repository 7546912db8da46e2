"""What a script or a notebook shows while a run goes on."""

from __future__ import annotations

import logging
import sys
import types
import warnings
from pathlib import Path

import pytest

from pike.api.views import Progress
from pike.api.waiting import WARNINGS_NAME, StatusLine, status, watched
from pike.core.accounts import Uncertain
from pike.core.settings.budget import Budget, Spend


def snapshot(best: float | None = 1.83, candidates: int = 12) -> Progress:
    return Progress(
        task="ResNet-18\x1b[2J",
        phase="searching",
        round=0,
        spend=Spend(),
        uncertain=Uncertain(),
        budget=Budget(30),
        best_speedup=best,
        best_id="c5",
        reference_ms=4.0,
        active=(),
        counts=(),
        events=(),
        stopped="",
        candidates=candidates,
    )


def test_a_state_is_one_line_that_steers_no_terminal() -> None:
    assert status(snapshot()).endswith("searching, 12 candidates, best 1.83×")
    assert "\x1b" not in status(snapshot())
    assert "none valid yet" in status(snapshot(best=None))


def test_a_script_says_on_stderr_where_its_run_stands(tmp_path: Path, capsys) -> None:
    with watched(None, True, tmp_path) as observer:
        assert observer is not None
        observer(snapshot(candidates=3))
        observer(snapshot(candidates=4))
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert "4 candidates" in err


def test_the_line_can_be_switched_off_and_gives_way_to_an_observer(tmp_path: Path, capsys) -> None:
    seen: list[Progress] = []
    with watched(seen.append, True, tmp_path) as observer:
        assert observer is not None
        observer(snapshot())
    with watched(None, False, tmp_path) as observer:
        assert observer is None
    assert (len(seen), capsys.readouterr().err) == (1, "")


def test_in_a_notebook_the_line_is_written_over(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    with StatusLine() as take:
        take(snapshot())
    shown = capsys.readouterr().err
    assert shown.startswith("\rpike: ")
    assert "12 candidates" in shown


def test_before_the_first_news_the_line_says_that_the_original_is_examined(capsys) -> None:
    line = StatusLine()
    line._show("")
    assert capsys.readouterr().err.startswith("pike: the original is examined, ")


def test_warnings_of_torch_and_of_the_model_go_to_a_file_of_the_run(tmp_path: Path, capsys) -> None:
    torch_logger = logging.getLogger("torch._dynamo")
    loud = logging.StreamHandler()
    torch_logger.addHandler(loud)
    with warnings.catch_warnings(), watched(None, False, tmp_path):
        warnings.simplefilter("always")
        warnings.warn("weights are not one chunk", stacklevel=1)
        warnings.warn("weights are not one chunk", stacklevel=1)
        torch_logger.warning("recompiled %d times", 8)
    assert capsys.readouterr().err == ""
    kept = (tmp_path / WARNINGS_NAME).read_text()
    assert "UserWarning: weights are not one chunk" in kept
    assert "recompiled 8 times" in kept
    assert loud in torch_logger.handlers
    torch_logger.removeHandler(loud)
