"""`split_products`: as exact as float32 whatever the numbers, made of TensorFloat-32 numbers, only where it pays."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recipe_harness import CPU, CUDA, Case, source_task

from pike.core.verdict.evaluation import EvaluateOptions, Precision
from pike.recipes.framework.context import RecipeContext
from pike.recipes.precision import split_products as recipe
from pike.recipes.precision.split_products import split_linear, tf32_rounded

SAME = EvaluateOptions(precision=Precision.SAME)
TWO_LAYERS = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(320, 256), nn.Linear(256, 64, bias=False)
    def forward(self, x):
        return self.second(torch.relu(self.first(x)))
def get_inputs():
    return [torch.randn(4, 32, 320)]
def get_init_inputs():
    return []
"""


LEAST = "1 << 32"
"""As the recipe writes its own limit."""


@pytest.fixture
def small_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "LEAST_PRODUCTS", 1)


def problem(case: Case, facts=CUDA, options: EvaluateOptions = SAME) -> RecipeContext:
    return case.problem(facts, options)


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False, max_value=2.0**127, min_value=-(2.0**127)))
def test_two_tensorfloat_numbers_hold_a_float32_number_but_for_its_last_bit(number: float) -> None:
    value = torch.tensor([number])
    lead = tf32_rounded(value)
    rest = tf32_rounded(value - lead)
    for part in (lead, rest):
        assert int(part.view(torch.int32)) % (1 << recipe.DROPPED_BITS) == 0, "TensorFloat-32 has 10 bits of mantissa"
    lost = abs(float(value.double() - lead.double() - rest.double()))
    assert lost <= max(abs(number) * 2.0**-23, 2.0**-136), "the least float32 numbers have fewer bits"


def test_the_layer_is_a_float32_layer(small_layers: None) -> None:
    case = Case.of(source_task(TWO_LAYERS))
    inputs = case.reference.draw(3)
    graph = recipe.split_products(case.reference.model, inputs.args, inputs.kwargs)
    assert sum("pike_split" in str(node.target) for node in graph.graph.nodes) == 2
    with torch.no_grad():
        found = graph(*inputs.args)
        truth = case.reference.model.double()(inputs.args[0].double())
    apart = (found.double() - truth).abs().max() / truth.abs().max()
    assert apart < 1e-6, "a single TensorFloat-32 product is off by 1e-4"


def test_leaving_out_a_product_of_a_rest_would_be_seen() -> None:
    torch.manual_seed(0)
    rows, weight = torch.randn(64, 320), torch.randn(96, 320)
    lead = tf32_rounded(weight)
    stored = torch.cat([lead, tf32_rounded(weight - lead), lead], dim=1)
    front = tf32_rounded(rows)
    rest = tf32_rounded(rows - front)
    truth = rows.double() @ weight.double().t()
    whole = split_linear(torch.cat([rest, front, front], dim=1), stored, None)
    without = split_linear(torch.cat([torch.zeros_like(rest), front, front], dim=1), stored, None)
    scale = truth.square().mean().sqrt()
    assert (whole - truth).square().mean().sqrt() / scale < 5e-7
    assert (without - truth).square().mean().sqrt() / scale > 1e-5


def test_the_switch_of_the_process_is_put_back() -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    split_linear(torch.ones(2, 6), torch.ones(3, 6), torch.ones(3))
    assert torch.backends.cuda.matmul.allow_tf32 is before
    with pytest.raises(RuntimeError):
        split_linear(torch.ones(2, 6), torch.ones(3, 6), torch.ones(4))
    assert torch.backends.cuda.matmul.allow_tf32 is before


@pytest.mark.slow
def test_the_candidate_works_beside_a_compiler(small_layers: None, tmp_path: Path) -> None:
    case = Case.of(source_task(TWO_LAYERS))
    proposal = case.compose("split_products", "inductor", facts=CUDA, options=SAME)
    constant = f"LEAST_PRODUCTS = {LEAST}"
    assert constant in proposal.source
    candidate = case.loaded(replace(proposal, source=proposal.source.replace(constant, "LEAST_PRODUCTS = 1")), tmp_path)
    inputs = case.reference.draw(5)
    # While it is imported, the compiler reads the name of `torch.mm`, which the mock below lacks.
    importlib.import_module("torch._inductor.compile_fx")
    with mock.patch.object(torch, "mm", wraps=torch.mm) as product:
        error, own = case.errors(candidate, inputs)
    assert error <= 2 * own + 5e-7
    assert product.called, "the layers without a bias are products of pieces"


def test_where_it_declines(small_layers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case.of(source_task(TWO_LAYERS))
    declines = recipe.RECIPE.declines
    assert declines(problem(case)) == ""
    assert "NVIDIA" in declines(problem(case, facts=CPU))
    assert "fewer bits" in declines(problem(case, options=EvaluateOptions(precision=Precision.TF32)))
    monkeypatch.setattr(recipe, "LEAST_PRODUCTS", 1 << 30)
    assert "bound by arithmetic" in declines(problem(case))
