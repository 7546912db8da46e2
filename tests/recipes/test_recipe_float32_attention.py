"""`float32_attention` and the kernel: which attention they take, what they leave, and that attention is computed.

The kernel runs under Triton's interpreter and is compiled for Hopper, both without a GPU and where Triton is installed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from recipe_harness import CPU, CUDA, HALF, Case, alone, needs_triton, source_task

from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import EvaluateOptions, Precision
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import look
from pike.recipes.kernel_recipes import float32_attention as recipe
from pike.recipes.kernel_recipes import relu_attention
from pike.recipes.kernels import attention_kernel, attention_operator
from pike.recipes.precision.casts import run_inside

SAME = EvaluateOptions(precision=Precision.SAME)
TF32 = EvaluateOptions(precision=Precision.TF32)
NET = """
import torch
from torch import nn
from torch.nn import functional as F
class Attention(nn.Module):
    def forward(self, q, k, v):
        {body}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.attention, self.out = nn.Linear(32, 96), Attention(), nn.Linear(32, 32)
    def forward(self, x):
        q, k, v = (y.unflatten(-1, (2, 16)).transpose(1, 2) for y in self.project(x).chunk(3, -1))
        return self.out(self.attention(q, k, v).transpose(1, 2).reshape(x.shape))
def get_inputs():
    return [torch.randn(2, 96, 32)]
def get_init_inputs():
    return []
"""
SOFTMAX = "torch.softmax({} @ k.transpose(-2, -1), -1) @ v"
FORMS = {
    "plain": "return F.scaled_dot_product_attention(q, k, v)",
    "a scale and the future": "return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)",
    "written out": f"return {SOFTMAX.format('0.25 * q')}",
    "written out without heads": (
        "a, b, c = (y.flatten(0, 1) for y in (q, k, v))\n"
        "        y = torch.bmm(torch.softmax(torch.bmm(0.25 * a, b.transpose(1, 2)), -1), c)\n"
        "        return y.unflatten(0, (2, 2))"
    ),
    "a mask that is the future": (
        "mask = torch.ones(96, 96, dtype=torch.bool).tril()\n"
        "        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)"
    ),
    "other sizes": "return F.scaled_dot_product_attention(q[..., :64, :], torch.cat([k, k], 2), torch.cat([v, v], 2))"
    ".repeat(1, 1, 2, 1)[:, :, :96]",
}
LEFT = {
    "a mask": "return F.scaled_dot_product_attention(q, k, v, attn_mask=q[:, :1, :, :1] > k[:, :1, :, 0][:, :, None])",
    "a bias": "return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.arange(96.0)[None])",
    "shared keys": "return F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True)",
    "few keys": "return F.scaled_dot_product_attention(q, k[:, :, :32], v[:, :, :32])",
    "small heads": "return F.scaled_dot_product_attention(q[..., :8], k[..., :8], v)",
    "float64": "return F.scaled_dot_product_attention(*(y.double() for y in (q, k, v))).float()",
    "no attention": "return q * k * v",
}
LEAST = "LEAST_ATTENTION = 1 << 30"


@pytest.fixture
def small_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "LEAST_ATTENTION", 1)


def case_of(body: str) -> Case:
    return Case.of(source_task(NET.replace("{body}", body)))


def problem(case: Case, facts: DeviceFacts = CUDA, options: EvaluateOptions = SAME) -> RecipeContext:
    return case.problem(facts, options)


def rewritten(case: Case) -> torch.fx.GraphModule:
    inputs = case.reference.draw(1)
    return recipe.float32_attention(case.reference.model, inputs.args, inputs.kwargs)


def kernels(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if "pike_attention" in str(node.target)]


@pytest.mark.parametrize("form", FORMS)
def test_attention_becomes_the_kernel(form: str, small_attention: None) -> None:
    case = case_of(FORMS[form])
    assert recipe.RECIPE.declines(problem(case)) == ""
    graph = rewritten(case)
    (kernel,) = kernels(graph)
    assert kernel.args[4] is ("future" in form), "the causal flag"
    assert "scaled_dot_product" not in graph.code
    inputs = case.reference.draw(4)
    with torch.no_grad():
        assert torch.allclose(graph(*inputs.args), case.reference.model(*inputs.args), atol=2e-6)


@pytest.mark.parametrize("form", LEFT)
def test_other_attention_is_left(form: str, small_attention: None) -> None:
    case = case_of(LEFT[form])
    assert "no float32 attention" in recipe.RECIPE.declines(problem(case))
    assert not kernels(rewritten(case))


def test_where_it_declines(small_attention: None, monkeypatch: pytest.MonkeyPatch) -> None:
    case, declines = case_of(FORMS["plain"]), recipe.RECIPE.declines
    assert declines(problem(case, options=TF32)) == ""
    assert "NVIDIA" in declines(problem(case, CPU))
    assert "compute capability 8.0" in declines(problem(case, replace(CUDA, capability="7.5")))
    assert "triton 3.6" in declines(problem(case, replace(CUDA, compilers=("g++", "nvcc"))))
    for old in ("3.5.1", "2.1", "unknown"):
        assert "triton 3.6" in declines(problem(case, replace(CUDA, versions=(("triton", old),)))), old
    assert declines(problem(case, replace(CUDA, versions=(("triton", "3.10.0"),)))) == ""
    assert "16-bit" in declines(problem(case, options=HALF))
    monkeypatch.setattr(recipe, "LEAST_ATTENTION", 1 << 30)
    assert "large" in declines(problem(case))


def test_it_promises_more_where_attention_is_more_of_the_work(small_attention: None) -> None:
    once = look(recipe.RECIPE, problem(case_of(FORMS["plain"]))).gain
    body = "q = F.scaled_dot_product_attention(q, k, v)\n        " + FORMS["plain"]
    twice = look(recipe.RECIPE, problem(case_of(body))).gain
    assert 0 < once < twice < 1
    assert look(recipe.RECIPE, problem(case_of(LEFT["no attention"]))).gain == 0


def test_the_output_lies_in_memory_as_what_follows_wants_it(small_attention: None) -> None:
    for form, tokens_first in (("plain", True), ("written out", True), ("written out without heads", False)):
        (kernel,) = kernels(rewritten(case_of(FORMS[form])))
        assert kernel.args[5] is tokens_first, form
    straight = NET.replace("self.attention(q, k, v).transpose(1, 2).reshape(x.shape)", "{y}").replace(
        "{y}", "self.attention(q, k, v).reshape(x.shape)"
    )
    case = Case.of(source_task(straight.replace("{body}", FORMS["written out"])))
    assert kernels(rewritten(case))[0].args[5] is False


@pytest.mark.parametrize("rectified", [False, True])
@pytest.mark.parametrize("tokens_first", [False, True])
def test_what_is_said_of_the_operator_without_data_is_true(tokens_first: bool, rectified: bool) -> None:
    operator = attention_operator.attention_operator()
    assert attention_operator.attention_operator() is operator
    query, key, value = torch.randn(2, 3, 70, 16), torch.randn(2, 3, 90, 16), torch.randn(2, 3, 90, 24)
    args = (query, key, value, 0.25, False, tokens_first, rectified, "bf16x6")
    result = operator(*args)
    assert result.transpose(1, 2).is_contiguous() is tokens_first
    torch.library.opcheck(operator, args)


def test_a_device_with_less_room_takes_smaller_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    OutOfResources = type("OutOfResources", (Exception,), {})
    launched = []

    class Program:
        room = 64

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return self.launch

        def launch(self, *_args: Any, **fixed: Any) -> None:
            if fixed["BLOCK_M"] > self.room:
                raise OutOfResources("shared memory")
            launched.append(fixed["BLOCK_M"])

    monkeypatch.setattr(attention_kernel, "attention_program", Program)
    tensors = [torch.zeros(1, 2, 70, 96) for _ in range(4)]
    attention_kernel.attend(*tensors, attention_kernel.AttentionTerms(0.1, False, False, "bf16x6"))
    assert launched == [attention_kernel.SMALL_TILES.block_m]
    monkeypatch.setattr(Program, "room", 16)
    with pytest.raises(OutOfResources):
        attention_kernel.attend(*tensors, attention_kernel.AttentionTerms(0.1, False, False, "bf16x6"))


RECTIFIED = """scores = (q @ k.mT * 0.25).masked_fill(torch.ones(96, 96).tril() == 0, float("-inf"))
        return torch.relu(scores) @ v"""

LONG_RECTIFIED = """q, k, v = (y.double() for y in (q, k, v))
        scores = (q @ k.mT).masked_fill(torch.ones(96, 96).tril() == 0, float("-inf"))
        return (torch.relu(scores) @ v).float()"""
SHORT_RECTIFIED = """q, k, v = (y[:, :, :32] for y in (q, k, v))
        scores = (q @ k.mT).masked_fill(torch.ones(32, 32).tril() == 0, float("-inf"))
        return (torch.relu(scores) @ v).repeat(1, 1, 3, 1)"""


def test_rectified_attention_becomes_the_kernel_on_a_gpu() -> None:
    case = case_of(RECTIFIED)
    for facts, options, way in (
        (CUDA, SAME, "bf16x6"),
        (CUDA, HALF, "bf16x3"),
        (CPU, SAME, "blocks"),
        (replace(CUDA, capability="7.5"), SAME, "blocks"),
        (replace(CUDA, versions=()), TF32, "blocks"),
    ):
        found = problem(case, facts, options)
        assert relu_attention.RECIPE.declines(found) == ""
        assert relu_attention.attention_way(found) == (way,)
        assert look(relu_attention.RECIPE, found).gain > 0
    inputs = case.reference.draw(4)
    graph = relu_attention.relu_attention(case.reference.model, inputs.args, {}, ("bf16x6",))
    (kernel,) = kernels(graph)
    assert kernel.args[3:] == (0.25, True, True, True, "bf16x6"), "scale, causal, tokens_first, rectified"
    assert "matmul" not in graph.code
    with torch.no_grad():
        assert torch.allclose(graph(*inputs.args), case.reference.model(*inputs.args), atol=2e-6)


@pytest.mark.parametrize("body", [SHORT_RECTIFIED, LONG_RECTIFIED], ids=["short", "float64"])
def test_rectified_attention_that_does_not_fit_the_kernel_goes_in_blocks(body: str) -> None:
    case = case_of(body)
    assert relu_attention.RECIPE.declines(problem(case)) == ""
    assert relu_attention.attention_way(problem(case)) == ("blocks",)
    inputs = case.reference.draw(4)
    graph = relu_attention.relu_attention(case.reference.model, inputs.args, {}, ("bf16x6",))
    assert not kernels(graph)
    with torch.no_grad():
        assert torch.allclose(graph(*inputs.args), case.reference.model(*inputs.args), atol=2e-6)


def test_rectified_attention_in_16_bits_is_still_the_kernel() -> None:
    case = case_of(RECTIFIED)
    proposal = case.compose("relu_attention", "half", facts=CUDA, options=HALF)
    assert "relu_attention(model, args, kwargs, keep=('bf16x3',))" in proposal.source
    inputs = case.reference.draw(4)
    graph = relu_attention.relu_attention(case.reference.model, inputs.args, {}, ("bf16x3",))
    inside = run_inside(graph, inputs.args, {}, torch.float16, ("fragile",))
    (kernel,) = kernels(inside)
    assert {source.meta["val"].dtype for source in kernel.all_input_nodes} == {torch.float16}


def candidate(case: Case, *names: str, options: EvaluateOptions = SAME) -> str:
    """A candidate's file, in which small attention is large."""
    proposal = case.compose(*names, facts=CUDA, options=options)
    assert proposal.source, proposal.failure
    assert LEAST in proposal.source
    return proposal.source.replace(LEAST, "LEAST_ATTENTION = 1")


@pytest.mark.slow
def test_the_candidate_works_beside_a_compiler_and_knows_its_arithmetic(small_attention: None, tmp_path: Path) -> None:
    case = case_of(FORMS["written out"])
    source = candidate(case, "sdpa", "float32_attention", "inductor")
    assert "float32_attention(model, args, kwargs, keep=('bf16x6',))" in source
    assert "keep=('bf16x3',)" in candidate(case, "float32_attention", options=TF32)
    built = case.loaded(replace(case.compose("sdpa"), source=source), tmp_path)
    inputs = case.reference.draw(5)
    with torch.no_grad():
        built(*inputs.args)
    plain = torch.nn.functional.scaled_dot_product_attention
    with mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", wraps=plain) as called:
        error, own = case.errors(built, inputs)
    assert error <= 2 * own + 5e-7
    assert called.call_count == 1, "the reference writes attention out, the operator has a CPU's"


@needs_triton
def test_a_candidates_copy_of_the_kernel_computes_attention(small_attention: None, tmp_path: Path) -> None:
    """Under the interpreter, whose products are float32: it shows the algorithm, not what tensor cores lose."""
    file = tmp_path / "candidate.py"
    file.write_text(candidate(case_of(FORMS["plain"]), "float32_attention"))
    found = alone(file, "numbers,sixteen_bits,not_a_number")
    not_a_number = [found.pop(f"not_a_number {kind}") for kind in ("softmax", "rectified")]
    assert not_a_number == [0, 0], "elements that are no number here and one there"
    sixteen_bits = [found.pop(f"sixteen_bits {kind}") for kind in ("softmax", "rectified")]
    assert all(1e-5 < error < 2e-3 for error in sixteen_bits), sixteen_bits
    assert len(found) == 16
    assert all(error < 2 for error in found.values()), found


@needs_triton
@pytest.mark.slow
def test_a_candidates_copy_of_the_kernel_fits_a_hopper_gpu(small_attention: None, tmp_path: Path) -> None:
    file = tmp_path / "candidate.py"
    file.write_text(candidate(case_of(FORMS["plain"]), "float32_attention"))
    found = alone(file, "compile")
    assert len(found) == 11
    assert all(shared <= 227 * 1024 for shared in found.values()), found
