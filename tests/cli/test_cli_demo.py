"""What the demo shows when it is stopped half-way."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from test_cli_show import RESULT

from pike.cli import demo as module


def test_stopping_while_torch_compile_is_measured_keeps_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = list[str]()

    def optimize(task: str, **_: object) -> SimpleNamespace:
        asked.append(task)
        return SimpleNamespace(result=RESULT)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.api, "optimize", optimize)
    monkeypatch.setattr(module.api, "report", lambda folder: folder / "index.html")
    monkeypatch.setattr(module, "baselines", interrupted)
    with pytest.raises(typer.Exit):
        module.demo(out=tmp_path)
    assert asked == ["demo/resnet18"], "the next model is not begun"
    shown = capsys.readouterr()
    assert "2.21×" in shown.out + shown.err
    assert "stopped before torch.compile" in shown.out + shown.err
