"""The verbs from beginning to end, with a scripted model and the real judge."""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import pike
from pike import DropIn
from pike.core import figures
from pike.core.errors import UserError
from pike.core.verdict.evaluation import Status

QUICK = (
    "evaluate.max_timing_seconds=0.3",
    "evaluate.correctness_seeds=1",
    "evaluate.threads=1",
    "engine.finalists=1",
)
"""One thread, because two of them wait for each other where the machine is busy."""

FASTER = """
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.linear = linear

    @classmethod
    def from_reference(cls, model):
        return cls(model.linear)

    def forward(self, x):
        return self.linear(x)
"""


class RowByRow(nn.Module):
    """A linear layer, slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.linear(row) for row in x])


class Waiting(RowByRow):
    """The same, so slow that any machine sees the gain, however busy it is."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.03)
        return super().forward(x)


def script(path: Path, source: str) -> str:
    path.write_text(json.dumps([{"text": f"1. all rows at once\n```python\n{source}```"}]))
    return f"scripted:{path}"


@pytest.mark.slow
def test_a_live_module_becomes_a_faster_drop_in(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = Waiting().eval(), torch.randn(256, 16)
    before = torch.random.get_rng_state()
    phases = set[str]()
    done = pike.optimize(
        module,
        x,
        llm=script(tmp_path / "s.json", FASTER),
        query_budget=1,
        out=tmp_path / "run",
        settings=QUICK,
        observer=lambda progress: phases.add(progress.phase),
        dynamic_batch=[64, 256],
    )
    assert torch.equal(torch.random.get_rng_state(), before), "the caller's random numbers are left alone"
    assert done.result.finished
    assert done.result.improved, done.result.counts
    assert done.result.speedup is not None
    assert done.result.speedup > 2
    assert phases >= {"searching", "measuring", "done"}
    assert {path.name for path in done.folder.iterdir()} >= {"best.py", "result.json", "report.html"}
    assert done.report() == done.folder / "report.html"
    shown = done._repr_html_()
    assert figures.times(done.result.speedup) in shown and "report.html" in shown

    faster = done.module
    assert isinstance(faster, DropIn)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert faster.why_not((x,), {}) == ""
        torch.testing.assert_close(faster(x), module(x))
    (bucket,) = done.buckets
    assert bucket.batch == 64
    assert bucket.speedup is not None, bucket.why
    with torch.no_grad():
        assert faster.why_not((x[:64],), {}) == ""
        torch.testing.assert_close(faster(x[:64]), module(x[:64]))
        assert "other forms were judged on (float32[64, 16])" in faster.why_not((x[:65],), {})
    assert list(faster.state_dict()) == list(module.state_dict())
    again = pike.load(done.folder / "best.py", reference=module)
    with torch.no_grad():
        torch.testing.assert_close(again(x), module(x))

    resumed = pike.resume(done.folder)
    assert "finished already" in resumed.result.notes[-1]
    assert resumed.result.speedup == done.result.speedup
    assert isinstance(resumed.module, DropIn), "the saved module stands in for the live one"


def test_evaluate_gives_the_verdict_and_tells_the_stages() -> None:
    stages = list[str]()
    wrong = FASTER.replace("return self.linear(x)", "return self.linear(x) + 1")
    verdict = pike.evaluate(
        RowByRow().eval(), wrong, example_inputs=torch.randn(4, 16), on_stage=stages.append, settings=QUICK
    )
    assert verdict.status is Status.WRONG_OUTPUT
    assert verdict.reason
    assert "correct" in stages


def test_a_target_that_is_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs example_inputs"):
        pike.optimize(RowByRow(), out=tmp_path / "run")
    with pytest.raises(UserError, match="Cannot optimise a int"):
        pike.optimize(3, out=tmp_path / "run")
    with pytest.raises(UserError, match="no task"):
        pike.optimize("demo/nothing", out=tmp_path / "run")
    with pytest.raises(UserError, match="cannot be read"):
        pike.evaluate(RowByRow(), tmp_path / "none.py", example_inputs=torch.randn(4, 16))
    with pytest.raises(UserError, match="have no batch"):
        pike.optimize(RowByRow(), {"scale": 2.0}, out=tmp_path / "run", dynamic_batch=[8])
    assert not (tmp_path / "run").exists()


async def test_verbs_work_where_a_loop_is_running() -> None:
    """As in a notebook."""
    assert asyncio.get_running_loop()
    with pytest.raises(UserError, match="no run"):
        pike.resume("/no/such/run")


@pytest.mark.parametrize(
    "wrong", [pytest.param({"device": "mps"}, marks=pytest.mark.slow), {"strategy": "recipes", "device": "cuda:77"}]
)
def test_a_run_that_does_not_begin_leaves_nothing_behind(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(UserError):
        pike.optimize(RowByRow(), torch.randn(4, 16), out=tmp_path / "run", progress=False, **wrong)
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(UserError):
        pike.optimize(RowByRow(), torch.randn(4, 16), out=tmp_path / "mine", progress=False, **wrong)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_an_estimate_says_what_it_assumes(tmp_path: Path) -> None:
    free = pike.estimate("demo/resnet18", llm="none", query_budget=50)
    assert (free.queries, free.calls, free.usd) == (50, 0, 0.0)
    assert free.hours > 0
    llm = script(tmp_path / "s.json", FASTER)
    (tmp_path / "s.json").write_text(
        json.dumps({"input_usd_per_mtok": 1.25, "output_usd_per_mtok": 10.0, "answer": [{"text": "x"}]})
    )
    paid = pike.estimate("demo/resnet18", llm=llm, query_budget=300)
    assert paid.calls == 301
    assert paid.usd is not None
    assert 5 < paid.usd < 60, "the paper's runs cost about $25 for 300 queries"
    assert paid.assumptions
    capped = pike.estimate("demo/resnet18", llm=llm, query_budget=300, usd_budget=1.0)
    assert capped.limited_by == "money"
    assert capped.usd == pytest.approx(1.0)
    assert capped.queries < paid.queries


def test_an_unknown_price_is_unknown_and_not_zero(tmp_path: Path) -> None:
    llm = script(tmp_path / "s.json", FASTER)
    (tmp_path / "s.json").write_text(json.dumps({"unpriced": True, "answer": [{"text": "x"}]}))
    estimate = pike.estimate("demo/resnet18", llm=llm)
    assert estimate.usd is None
    assert any("unknown" in assumption for assumption in estimate.assumptions)


def test_the_doctor_finds_a_judge_and_never_shows_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    checks = {check.name: check for check in pike.doctor()}
    assert checks["torch"].ok
    assert checks["OPENAI_API_KEY"].ok
    assert "secret" not in repr(checks)
    assert all(check.cure for check in checks.values() if not check.ok)
    assert any(name.startswith("sandbox") and "(used)" in name for name in checks)
