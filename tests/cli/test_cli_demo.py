"""What the demo shows when it is stopped half-way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from test_cli_show import RESULT

from pike.api import outputs, runs
from pike.cli.run import demo as module
from pike.core.errors import UserError


@pytest.mark.parametrize(
    ("given", "words"),
    [({"settings": ["evaluate.tolerence=strict"]}, "tolerence"), ({"tasks": ["demo/resnet19"]}, "resnet19")],
)
def test_what_cannot_be_used_is_refused_before_an_earlier_demo_is_put_aside(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    for name in ("resnet18", "resnet19"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text("{}")
    with pytest.raises(UserError, match=words):
        module.demo(out=tmp_path, **given)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["resnet18", "resnet19"]


def test_a_demo_that_is_stopped_shows_what_it_has_and_begins_no_other_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = list[str]()

    def optimize(task: str, **_: object) -> SimpleNamespace:
        asked.append(task)
        return SimpleNamespace(result=replace(RESULT, finished=False, stopped="interrupted"))

    monkeypatch.setattr(runs, "estimate", lambda *_, **__: None)
    monkeypatch.setattr(runs, "optimize", optimize)
    monkeypatch.setattr(outputs, "report", lambda folder: folder / "index.html")
    with pytest.raises(typer.Exit):
        module.demo(out=tmp_path)
    assert asked == ["demo/resnet18"]
    shown = capsys.readouterr()
    assert "2.21×" in shown.out + shown.err
    assert "Continue with:  pike resume" in shown.out + shown.err
