"""Modules from installed packages, optimised by recipes with the real judge."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import pike
from pike.engine.output import originals, outputs
from pike.engine.state.resume import read_state

pytestmark = pytest.mark.slow

SETTINGS = ("evaluate.max_timing_seconds=0.3", "evaluate.correctness_seeds=1", "engine.finalists=1")


@pytest.fixture(autouse=True)
def _no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without a compiler: what is compiled is tested elsewhere, and takes a minute here."""
    monkeypatch.setenv("PATH", str(tmp_path))


def optimise(module: nn.Module, inputs: object, out: Path) -> pike.Optimized:
    return pike.optimize(module, inputs, llm="none", query_budget=1, device="cpu", out=out, settings=SETTINGS)


def test_a_transformer_encoder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(d_model=32, nhead=4, dim_feedforward=64, batch_first=True)
    encoder = nn.TransformerEncoder(layer, num_layers=1).eval()
    x = torch.randn(2, 16, 32)
    done = optimise(encoder, x, tmp_path / "run")
    assert done.result.finished
    assert done.result.best is not None, done.result.counts
    _same(_winner(done, encoder), encoder, (x,), {})


def _winner(done: pike.Optimized, module: nn.Module) -> nn.Module:
    """The fastest valid candidate as a drop-in, also where it was not faster on this machine."""
    assert done.result.evaluation is not None
    assert done.result.evaluation.timing is not None
    timing = replace(done.result.evaluation.timing, speedup_ci95=(2.0, 3.0))
    result = replace(done.result, evaluation=replace(done.result.evaluation, timing=timing))
    task = read_state(Path(done.folder)).task
    outputs.write(done.folder, task, result, originals.load(task))
    return pike.load(done.folder / "best.py", reference=module)


def _same(dropin: nn.Module, original: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", message="The original")
        got, want = dropin(*args, **kwargs), original(*args, **kwargs)
    if isinstance(want, torch.Tensor):
        got, want = {"out": got}, {"out": want}
    assert list(got) == list(want)
    for name in want:
        torch.testing.assert_close(got[name], want[name], atol=1e-4, rtol=1e-4)
