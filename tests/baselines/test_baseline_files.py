"""What baselines are written as, run here on the CPU without a judge; and which published file belongs to a task."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from pike.baselines import BASELINES, PublishedFolder, missing_here, source
from pike.baselines.catalogue import COMPILE, CUDA_GRAPH, EAGER, TENSORRT
from pike.baselines.techniques import as_cuda_graphs
from pike.core.errors import UserError
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Evaluation, Precision, Status

SOURCE = """
from __future__ import annotations
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.register_buffer("count", torch.arange(3))

    def forward(self, x, flag=None):
        y = self.linear(x)
        return {"y": torch.tanh(y), "rows": x.shape[0], "seen": (self.linear.weight.dtype == torch.float32)}


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return [8]
"""
TASK = Task("suite/9_Thing", "thing", TaskKind.SOURCE, SOURCE, "thing.py")


def model_of(text: str, *init: Any) -> Any:
    space: dict[str, Any] = {"__name__": "candidate"}
    exec(compile(text, "candidate.py", "exec"), space)
    return space["ModelNew"](*init) if init else space["ModelNew"]


@pytest.fixture(autouse=True)
def _switches() -> Any:
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("baseline", BASELINES, ids=lambda baseline: baseline.name)
def test_every_baseline_is_a_file_with_modelnew_for_both_kinds_of_task(baseline: Any, precision: Precision) -> None:
    module_task = Task("module/x", "x", TaskKind.MODULE, "", "test", "payload")
    for task in (TASK, module_task):
        text = source(baseline, task, precision)
        assert "class ModelNew" in text
        compile(text, "candidate.py", "exec")
        assert ("set_float32_matmul_precision" in text) == (precision is Precision.TF32)
        assert ("in_16_bits" in text) == (precision is Precision.HALF)


def test_half_computes_in_16_bits_and_answers_in_the_dtypes_of_the_original() -> None:
    torch.manual_seed(0)
    model = model_of(source(EAGER, TASK, Precision.HALF), 8).eval()
    inputs = torch.randn(4, 8)
    with torch.no_grad():
        expected = torch.tanh(model.linear(inputs))
        for _ in range(2):
            answer = model(inputs)
    assert answer["y"].dtype == torch.float32
    assert answer["rows"] == 4
    assert answer["seen"] is False, "the weights are still float32"
    assert model.linear.weight.dtype == torch.bfloat16
    assert model.count.dtype == torch.int64
    error = (answer["y"] - expected).abs().max().item()
    assert 1e-5 < error < 3e-2


def test_half_leaves_a_model_with_16_bit_weights_as_it_is() -> None:
    model = model_of(source(EAGER, TASK, Precision.HALF), 8).to(torch.bfloat16).eval()
    with torch.no_grad():
        assert model(torch.randn(4, 8).to(torch.bfloat16))["y"].dtype == torch.bfloat16
    assert model.linear.weight.dtype == torch.bfloat16


def test_half_of_a_live_module_wraps_it() -> None:
    task = Task("module/x", "x", TaskKind.MODULE, "", "test", "payload")
    kind = model_of(source(EAGER, task, Precision.HALF))
    original = torch.nn.Linear(8, 8)
    model = kind.from_reference(original).eval()
    with torch.no_grad():
        assert model(torch.randn(2, 8)).dtype == torch.float32
        assert model(torch.randn(3, 8)).shape == (3, 8)
    assert original.weight.dtype == torch.bfloat16


@pytest.mark.slow
def test_half_is_compiled_with_its_casts() -> None:
    text = source(COMPILE, TASK, Precision.HALF)
    model = model_of(text, 8).eval()
    with torch.no_grad():
        model.load_state_dict(model.state_dict())
        answer = model(torch.randn(4, 8))
    assert answer["y"].dtype == torch.float32
    assert hasattr(model.forward, "get_compiler_config") or "torch_dynamo" in repr(vars(model.forward))


def test_tf32_sets_torchs_switches_and_same_does_not() -> None:
    torch.backends.cudnn.allow_tf32 = False
    model_of(source(EAGER, TASK, Precision.SAME), 8)
    assert torch.get_float32_matmul_precision() == "highest"
    model_of(source(EAGER, TASK, Precision.TF32), 8)
    assert torch.get_float32_matmul_precision() == "high"
    assert torch.backends.cudnn.allow_tf32


def test_what_tensorrt_lacks_is_no_refusal_of_tensorrt() -> None:
    with pytest.raises(ImportError, match="torch_tensorrt cannot be imported: ModuleNotFoundError"):
        model_of(source(TENSORRT, TASK, Precision.SAME))
    reason = "ImportError: torch_tensorrt cannot be imported: ModuleNotFoundError: No module named 'torch_tensorrt'"
    refused = Evaluation(Status.BUILD_ERROR, reason)
    assert missing_here(TENSORRT, refused).startswith("torch_tensorrt cannot be imported")
    assert not missing_here(CUDA_GRAPH, refused)
    assert not missing_here(TENSORRT, Evaluation(Status.BUILD_ERROR, "SyntaxError"))
    assert not missing_here(TENSORRT, Evaluation(Status.WRONG_OUTPUT, "off"))


class _Recording:
    """Stands for `torch.cuda.CUDAGraph`: what was called while it was recorded is called again at every replay."""

    made: ClassVar[list[_Recording]] = []

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.replays = 0
        _Recording.made.append(self)

    def replay(self) -> None:
        self.replays += 1
        for call in self.calls:
            call()


@pytest.fixture
def fake_graphs(monkeypatch: pytest.MonkeyPatch) -> Any:
    stream = SimpleNamespace(wait_stream=lambda _: None)
    open_: list[_Recording] = []

    @contextlib.contextmanager
    def graph(recording: _Recording) -> Iterator[None]:
        open_.append(recording)
        yield
        open_.pop()

    monkeypatch.setattr(torch.cuda, "Stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", _Recording)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(_Recording, "made", [])
    return open_


def test_a_cuda_graph_copies_inputs_in_and_outputs_out(fake_graphs: Any) -> None:
    def double(x: torch.Tensor, scale: Any = None) -> dict[str, Any]:
        out = torch.empty_like(x)

        def work() -> None:
            out.copy_(2.0 * x + (0.0 if scale is None else scale))

        work()
        for recording in fake_graphs:
            recording.calls.append(work)
        return {"y": out, "n": x.shape[0]}

    run = as_cuda_graphs(double)
    first_input = torch.ones(3)
    first = run(first_input)
    second = run(torch.full((3,), 5.0))
    assert first["y"].tolist() == [2.0] * 3, "an answer stays what it was after the next call"
    assert second["y"].tolist() == [10.0] * 3 and second["n"] == 3
    assert first_input.tolist() == [1.0] * 3
    assert run(torch.ones(2))["y"].tolist() == [2.0] * 2, "another shape is recorded on its own"
    assert run(torch.ones(2), scale=torch.ones(2))["y"].tolist() == [3.0] * 2
    assert run(torch.ones(2), scale=torch.full((2,), 4.0))["y"].tolist() == [6.0] * 2
    assert run(torch.ones(2), scale=7.0)["y"].tolist() == [9.0] * 2, "a number is part of the kind of call"
    assert [recording.replays for recording in _Recording.made] == [2, 1, 2, 1]


@pytest.mark.parametrize("layout", ["9_Thing.py", "9.py", "task_9.py", "9_other.py", "9_Thing/best.py", "9/x.py"])
def test_a_published_solution_is_found(tmp_path: Path, layout: str) -> None:
    for name in (layout, "19_Thing.py", "8_Thing.py", "readme.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert PublishedFolder(tmp_path).find(TASK) == (tmp_path / layout, "")


def test_the_exact_name_wins_over_the_number(tmp_path: Path) -> None:
    for name in ("9.py", "9_thing.py", "9_zzz.py"):
        (tmp_path / name).write_text("")
    assert PublishedFolder(tmp_path).find(TASK)[0] == tmp_path / "9_thing.py"


def test_a_missing_or_unclear_solution_says_so(tmp_path: Path) -> None:
    found, why = PublishedFolder(tmp_path).find(TASK)
    assert found is None and "no solution for 9_Thing" in why
    (tmp_path / "9_a.py").write_text("")
    (tmp_path / "9_b.py").write_text("")
    found, why = PublishedFolder(tmp_path).find(TASK)
    assert found is None and "not clear" in why and "9_a.py, 9_b.py" in why
    with pytest.raises(UserError, match="no folder"):
        PublishedFolder(tmp_path / "nowhere")


def test_a_published_folder_is_named_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "pike-b").mkdir()
    assert PublishedFolder(tmp_path / "pike-b").name == "published:pike-b"
