"""A chain of layers in one kernel: which models are one, and the kernel's own source run on a CPU, thread by thread."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from recipe_harness import CPU, CUDA, Case, candidate_module, source_task

from pike.recipes.framework.context import RecipeContext
from pike.recipes.kernel_recipes.one_kernel import RECIPE, one_kernel
from pike.recipes.kernels import layers_kernel
from pike.recipes.kernels.layers_kernel import Layer, LayersKernel
from pike.recipes.search.proposals import proposal

pytestmark = pytest.mark.slow
HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(24, 40)
        self.b = nn.Linear(40, 17, bias=False)
        self.c = nn.Linear(17, 8)
    def forward(self, x, y):
        {body}
def get_inputs():
    return [torch.randn(3, 16), torch.randn(3, 8)]
def get_init_inputs():
    return []
"""
BESIDE = "x = torch.cat([x, y], 1)\n        "
CHAINS = {
    "three layers": BESIDE + "return self.c(torch.tanh(self.b(F.relu(self.a(x)))))",
    "in another order": "return self.c(self.b(F.gelu(self.a(torch.cat([y, x], -1)))))",
    "a function at the end": BESIDE + "return torch.sigmoid(self.a(x))",
    "other shapes between": BESIDE + "return F.silu(self.b(self.a(x)).reshape(3, 1, 17)).flatten(1)",
}
NOT_CHAINS = {
    "read twice": BESIDE + "h = self.a(x)\n        return self.b(h) + self.b(h * 2)",
    "two outputs": BESIDE + "return self.a(x), x",
    "a function of inputs": BESIDE + "return self.a(F.relu(x))",
    "another function": BESIDE + "return F.softmax(self.a(x), -1)",
    "gelu by another formula": BESIDE + "return F.gelu(self.a(x), approximate='tanh')",
    "rows side by side": "return self.a(torch.cat([x.flatten(), y.flatten()]).view(3, 24))",
    "turned": "return self.a(torch.cat([x, y], 1)).T",
    "nothing to do": "return x",
    "no input": "return self.a.bias",
    "weights that depend on inputs": BESIDE + "return F.linear(self.a(x), y.new_zeros(5, 40) + y.sum())",
    "numbers that are cut off": BESIDE + "return self.b(self.a(x).to(torch.int32).to(torch.float32))",
}


@pytest.fixture
def on_host(monkeypatch, tmp_path):
    """Kernels are compiled for this CPU; returns how often one was launched."""
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    monkeypatch.setattr(layers_kernel, "LAYER_THREADS", 32)
    return put_on_host(monkeypatch, layers_kernel, tmp_path)


numbers = itertools.count()


def put_on_host(monkeypatch, module, folder: Path) -> list[int]:
    launched: list[int] = []

    def loaded_kernel(source, architecture):
        assert architecture == "sm_90"
        program, library = folder / f"kernel{next(numbers)}.cpp", folder / f"kernel{next(numbers)}.so"
        start = f'extern "C" void start(const Job* job, unsigned blocks) {{ launch(layers, *job, blocks, {module.LAYER_THREADS}); }}'
        program.write_text(f"{source}\n{start}\n")
        shim = Path(__file__).with_name("cuda_on_host.h")
        flags = ["-std=c++20", "-shared", "-fPIC", "-pthread", "-Wno-unknown-pragmas", "-include", str(shim)]
        subprocess.run(["g++", *flags, str(program), "-o", str(library)], check=True, capture_output=True)
        return ctypes.CDLL(str(library))

    def launch(function, blocks, *rest):
        launched.append(blocks)
        function.start(ctypes.c_void_p(rest[-2][0]), blocks)
        return 0

    monkeypatch.setattr(module, "loaded_kernel", loaded_kernel)
    monkeypatch.setattr(module, "cuda_driver", lambda: SimpleNamespace(cuLaunchKernel=launch))
    properties = SimpleNamespace(multi_processor_count=3, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    return launched


def case_of(body: str) -> Case:
    return Case.of(source_task(HEAD.replace("{body}", body)))


def problem_of(body: str, facts=CUDA) -> RecipeContext:
    return case_of(body).problem(facts)


@pytest.mark.parametrize("body", CHAINS)
def test_a_chain_is_one_launch(body, on_host):
    case = case_of(CHAINS[body])
    assert not RECIPE.declines(problem_of(CHAINS[body]))
    run = one_kernel(case.reference.model, case.reference.draw(1).args, {})
    for seed in (2, 3):
        inputs = case.reference.draw(seed).args
        with torch.no_grad():
            torch.testing.assert_close(run(*inputs), case.reference.model(*inputs), rtol=1e-5, atol=1e-5)
    assert len(on_host) == 2


@pytest.mark.parametrize("body", NOT_CHAINS)
def test_what_is_no_chain_is_left_alone(body):
    assert "not a chain" in RECIPE.declines(problem_of(NOT_CHAINS[body]))


def test_it_is_for_gpus_and_few_rows():
    assert RECIPE.declines(problem_of(CHAINS["three layers"], CPU)) == "this kernel is for GPUs"
    many = HEAD.replace("{body}", CHAINS["three layers"]).replace("randn(3,", "randn(9,")
    assert "not a chain" in RECIPE.declines(Case.of(source_task(many)).problem(CUDA))


@pytest.mark.parametrize(
    ("dtype", "columns", "rows"),
    [
        (torch.float32, (40, 24), 8),
        (torch.float16, (64,), 1),
        (torch.float16, (12, 2), 3),
        (torch.bfloat16, (7,), 2),
    ],
)
def test_the_kernel_sums_as_pytorch_does_whatever_the_bits(dtype, columns, rows, on_host):
    torch.manual_seed(1)
    widths = (sum(columns), 52, 6, 30)
    layers = [
        Layer(torch.randn(out, into).mul(into**-0.5).to(dtype), torch.randn(out) if out != 6 else None, "relu")
        for into, out in itertools.pairwise(widths)
    ]
    inputs = [torch.randn(rows, count).to(dtype) for count in columns]
    found = LayersKernel(inputs, rows, layers, (rows, 30), dtype)(*inputs)[0]
    wanted = torch.cat(inputs, 1).double()
    for layer in layers:
        bias = 0.0 if layer.bias is None else layer.bias.double()
        wanted = torch.relu(wanted @ layer.weight.double().T + bias)
    rounding = torch.finfo(dtype).eps if dtype is not torch.float32 else 4e-6
    assert (found.double() - wanted).abs().max() <= rounding * wanted.abs().max()


def test_inputs_that_lie_anyhow_are_read_right(on_host):
    layers = [Layer(torch.randn(16, 8), None, "none")]
    kernel = LayersKernel([torch.randn(2, 8)], 2, layers, (2, 16), torch.float32)
    for x in (torch.randn(8, 2).T, torch.randn(17)[1:].view(2, 8)):
        torch.testing.assert_close(kernel(x)[0], x @ layers[0].weight.T)


def test_what_lies_between_layers_may_be_of_any_width(on_host):
    """Six numbers are no multiple of sixteen bytes, and four that are read at once lie behind them."""
    widths = (8, 6, 4, 2)
    layers = [Layer(torch.randn(out, into), None, "none") for into, out in itertools.pairwise(widths)]
    x = torch.randn(1, 8)
    wanted = x @ layers[0].weight.T @ layers[1].weight.T @ layers[2].weight.T
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)  # as a user's program may have it
        kernel = LayersKernel([x], 1, layers, (1, 2), torch.float32)
    finally:
        torch.set_default_dtype(before)
    assert all(address % 16 == 0 for address in kernel.job.between)
    assert kernel.kept[2].dtype is torch.float32
    torch.testing.assert_close(kernel(x)[0], wanted)


def test_not_a_number_stays_one(on_host):
    layers = [Layer(torch.eye(4), None, "relu"), Layer(torch.eye(4), None, "none")]
    x = torch.tensor([[float("nan"), float("inf"), -1.0, 2.0]])
    kernel = LayersKernel([x], 1, layers, (1, 4), torch.bfloat16)
    assert kernel(x)[0].isnan().all(), "zero times infinity, as in PyTorch's product"


@pytest.mark.parametrize("names", [("one_kernel",), ("half", "one_kernel")])
def test_a_candidate_launches_once_a_call(names, on_host, monkeypatch, tmp_path):
    case = case_of(CHAINS["three layers"])
    written = proposal(case.task, names)
    module = candidate_module(written.source, tmp_path)
    module.LAYER_THREADS = 32
    launched = put_on_host(monkeypatch, module, tmp_path)
    candidate = module.ModelNew()
    candidate.load_state_dict(case.reference.model.state_dict())
    candidate.eval()
    inputs = case.reference.draw(5).args
    with torch.no_grad():
        found, wanted = [candidate(*inputs) for _ in range(3)], case.reference.model(*inputs)
    exact = names == ("one_kernel",)
    for one in found:
        torch.testing.assert_close(one, wanted, rtol=1e-5 if exact else 1e-2, atol=1e-5 if exact else 2e-3)
    assert len(launched) == 3 + 3, "three calls when it is built, then one a call"
