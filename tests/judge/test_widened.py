"""A model run wider, layer by layer, and models whose weights come after construction."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch
from torch import nn

from pike.core.errors import UserError
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, Precision
from pike.judge.child.donor import Donor, donate, packed, unpacked
from pike.judge.child.skip_init import SkipInit
from pike.judge.prepared_task import PreparedTask
from pike.judge.reference import answers
from pike.judge.reference.forward import Trial
from pike.judge.reference.reference import Inputs, load
from pike.judge.reference.widened import widened
from pike.judge.timing.device_lock import DeviceLock

CPU = torch.device("cpu")


class Net(nn.Module):
    """Two layers, one of them used twice, and a buffer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.register_buffer("shift", torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.first(torch.tanh(self.first(x)))) + self.shift


def test_widening_gives_the_answer_of_a_float64_copy_and_leaves_the_model_alone() -> None:
    model, x = Net().eval(), torch.randn(4, 8)
    before = {name: (id(value), value.clone()) for name, value in model.state_dict(keep_vars=True).items()}
    with torch.no_grad():
        wide = widened(model, torch.float64)(x.double())
        native = model(x)
        assert torch.equal(wide, Net.forward(model.double(), x.double()))
    assert wide.dtype is torch.float64 and native.dtype is torch.float32
    after = model.float().state_dict(keep_vars=True)
    assert all(torch.equal(value, after[name]) for name, (_, value) in before.items())


def test_a_layer_that_raises_gets_its_own_weights_back() -> None:
    model = Net().eval()
    with pytest.raises(RuntimeError):
        widened(model, torch.float64)(torch.randn(4, 7).double())
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32}


def test_a_model_too_large_to_copy_still_has_exact_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Net().eval(), torch.randn(4, 8)
    inputs = Inputs((x,), {})
    copied = answers.Answers(model, Precision.SAME, Trial(CPU, inputs))
    model.unused = nn.Module()
    model.unused.register_buffer("large", torch.zeros(1).expand(1 << 30))  # four bytes here, gigabytes in a copy
    monkeypatch.setattr("copy.deepcopy", lambda *_: pytest.fail("a copy was made"))
    streamed = answers.Answers(model, Precision.SAME, Trial(CPU, inputs))
    assert streamed.exact
    with torch.no_grad():
        native = [model(x)]
    exact = [made.expected(inputs, lambda: native).answers[0] for made in (streamed, copied)]
    assert torch.equal(*exact)


def test_random_initialisation_is_skipped_and_constants_are_kept() -> None:
    with SkipInit():
        layers = [nn.Linear(3, 3), nn.Conv2d(3, 3, 3), nn.Embedding(3, 3), nn.MultiheadAttention(4, 2), nn.GRU(3, 3)]
        norm = nn.BatchNorm2d(3)
        drawn = torch.randn(3)
    assert not any(bool(value.any()) for layer in layers for value in layer.parameters())
    assert bool((norm.weight == 1).all()) and bool(drawn.any())
    assert bool(nn.Linear(3, 3).weight.any())


LATER = """
import torch
CONSTRUCTED = []
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.layer(x)
def initialise(model):
    %s
def get_inputs():
    return [torch.randn(2, 4)]
def get_init_inputs():
    return []
"""


def test_initialise_sets_the_weights_once_and_the_same_each_time() -> None:
    source = LATER % "torch.nn.init.normal_(model.layer.weight)"
    task = Task("later", "later", TaskKind.SOURCE, source, "later.py")
    first, second = load(task), load(task)
    assert first.skip_init
    assert bool(first.model.layer.weight.any())
    assert not bool(first.model.layer.bias.any()), "what initialise leaves alone is zero, not chance"
    assert torch.equal(first.model.layer.weight, second.model.layer.weight)


@pytest.mark.filterwarnings("ignore")
def test_a_donor_of_what_cannot_be_pickled_has_its_weights_all_the_same() -> None:
    hooked, normed = nn.Linear(4, 4), nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    hooked.register_forward_hook(lambda _, __, output: 2 * output)
    quantized = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear})
    model = nn.ModuleDict({"hooked": hooked, "normed": normed, "plain": nn.Linear(4, 4), "quantized": quantized})
    state = model.state_dict()
    donor = unpacked(packed(donate(model), state), state)
    assert donor.hooked.weight.equal(hooked.weight) and donor.normed.weight.equal(normed.weight)
    assert isinstance(donor.hooked, Donor) and isinstance(donor.plain, nn.Linear)
    assert donor.quantized[0].weight().dequantize().equal(quantized[0].weight().dequantize())


def test_a_donor_travels_without_the_tensors_that_the_state_dict_holds() -> None:
    model = Net().eval()
    model.table = torch.arange(3.0)  # not in the state dict
    data = packed(donate(model), model.state_dict())
    assert len(data) < model.first.weight.nbytes + 2500
    there = unpacked(data, model.state_dict())
    assert isinstance(there, Donor)
    assert isinstance(there.first.weight, nn.Parameter)
    assert torch.equal(there.first.weight, model.first.weight) and torch.equal(there.shift, model.shift)
    assert torch.equal(there.table, model.table)
    assert there.first.weight.data_ptr() != model.first.weight.data_ptr()


class Rotation(nn.Module):
    """Turns pairs by angles that it holds as complex numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones(4), torch.arange(4.0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.view_as_complex(x.float().view(-1, 4, 2)) * self.turns).flatten(-2).to(x.dtype)


def test_a_float64_copy_keeps_imaginary_parts() -> None:
    model, x = Rotation().eval(), torch.randn(3, 8)
    found = answers.Answers(model, Precision.HALF, Trial(CPU, Inputs((x,), {})))
    native = [model(x)]
    expected = found.expected(Inputs((x,), {}), lambda: native)
    assert found.exact
    torch.testing.assert_close(expected.answers[0].float(), native[0], atol=1e-5, rtol=1e-5)
    for variant in expected.variants:
        torch.testing.assert_close(variant[0].float(), native[0], atol=5e-2, rtol=5e-2)


class Crowded(nn.Module):
    """Finds no memory for its float64 form."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        if x.dtype == torch.float64:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 GiB.")
        return self.inner(x)


def test_memory_that_others_hold_is_no_reason_for_a_wider_budget():
    given = Crowded().eval(), Precision.SAME, Trial(CPU, Inputs((torch.randn(2, 4),), {}))
    with pytest.raises(torch.OutOfMemoryError):
        answers.Answers(*given, alone=False)
    assert not answers.Answers(*given, alone=True).exact


@pytest.mark.parametrize(("alone", "kind"), [(False, torch.OutOfMemoryError), (True, UserError)])
def test_too_little_memory_is_the_tasks_fault_only_if_no_other_judge_holds_any(alone, kind, tmp_path):
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        "        raise torch.OutOfMemoryError('CUDA out of memory.')\n"
        "def get_inputs():\n    return [torch.ones(2)]\ndef get_init_inputs():\n    return []\n"
    )
    task = Task("t", "t", TaskKind.SOURCE, source, "t.py")
    lock = DeviceLock("a device", folder=tmp_path)
    with pytest.raises(kind, match="out of memory"), lock.shared():
        PreparedTask(task, torch.device("cpu"), EvaluateOptions(), lock, alone)


def plus_one(folder):
    """The prepared task x + 1."""
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
        "def get_inputs():\n    return [torch.ones(2)]\ndef get_init_inputs():\n    return []\n"
    )
    task, lock = Task("t", "t", TaskKind.SOURCE, source, "t.py"), DeviceLock("a device", folder=folder)
    with lock.shared():
        return PreparedTask(task, torch.device("cpu"), EvaluateOptions(), lock)


def test_a_kind_of_inputs_is_not_left_out_because_memory_is_short(tmp_path):
    with closing(plus_one(tmp_path)) as prepared:
        assert prepared.expected_or_none(prepared.draw(1), 1.0) is not None
        prepared.answers = Failing(ValueError("no such value"))
        assert prepared.expected_or_none(prepared.draw(1), 1.0) is None
        prepared.answers = Failing(torch.OutOfMemoryError("CUDA out of memory."))
        with pytest.raises(torch.OutOfMemoryError):
            prepared.expected_or_none(prepared.draw(1), 1.0)


def test_the_reference_process_answers_last_so_that_wider_answers_need_not_share_memory_with_it(tmp_path, monkeypatch):
    seen = []
    with closing(plus_one(tmp_path)) as prepared:
        call, variants = prepared.reference_process.call, prepared.answers.variants
        monkeypatch.setattr(prepared.reference_process, "call", lambda *given: seen.append("process") or call(*given))
        monkeypatch.setattr(prepared.answers, "variants", lambda inputs: seen.append("variants") or variants(inputs))
        inputs = prepared.draw(1)
        torch.testing.assert_close(prepared.expected(inputs).native[0], torch.full((2,), 2.0))
        torch.testing.assert_close(prepared.nearby(inputs)[0][0], torch.full((2,), 2.0))
    assert seen == ["variants", "process"] * 2


class Failing:
    """Answers that cannot be had."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def expected(self, inputs, native):
        raise self.error
