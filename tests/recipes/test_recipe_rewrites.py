"""The newer rewrites of the graph: each gives the reference's outputs, does what it is for, and leaves the rest alone."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import torch
from recipe_harness import CPU, CUDA, Case, source_task

from pike.core.verdict.evaluation import EvaluateOptions, Precision
from pike.recipes.capture.graph import calls, done_for_effect, example_of
from pike.recipes.kernel_recipes.relu_attention import relu_attention
from pike.recipes.layout.narrow_linears import narrow_linears
from pike.recipes.registry import BY_NAME
from pike.recipes.rewrites.merge_convs import merge_convs
from pike.recipes.rewrites.pool_first import pool_first
from pike.recipes.rewrites.real_rotations import real_rotations
from pike.recipes.rewrites.unread_rows import unread_rows
from pike.recipes.rewrites.upsampled_convs import upsampled_convs
from pike.recipes.search.composition import ordered
from pike.recipes.search.explored import explore

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {layers}
    def forward(self, x):
        {body}
def get_inputs():
    return [torch.randn({shape})]
def get_init_inputs():
    return []
"""


def task(shape: str, layers: str, body: str) -> Case:
    layers = layers.replace("; ", "\n        ")
    return Case.of(source_task(HEAD.replace("{layers}", layers).replace("{body}", body).replace("{shape}", shape)))


def declined(case: Case, recipe: str, facts=CPU) -> str:
    return BY_NAME[recipe].declines(case.problem(facts))


def called(case: Case, transform) -> list[str]:
    """The operators that are left of a model after a transform."""
    inputs = case.reference.draw(1)
    graph = transform(case.reference.model, inputs.args, inputs.kwargs)
    return [str(node.target).split(".")[1] for node in graph.graph.nodes if str(node.target).startswith("aten.")]


def assert_equal(case: Case, folder: Path, recipe: str) -> None:
    candidate = case.build(folder, recipe)
    for rng in (1, 2):
        error, own = case.errors(candidate, case.reference.draw(rng))
        assert error <= 2 * own + 5e-7
    assert candidate.prepared is not None, "the fast way was never built"


CONV = "self.conv = nn.Conv2d(4, 8, 1); self.wide = nn.Conv2d(4, 8, 3, padding=1)"
POOLED = {
    "average": "return F.avg_pool2d(self.conv(x), 2)",
    "odd sizes leave a border out": "return F.avg_pool2d(self.conv(x), 3, stride=2)",
    "adaptive": "return F.adaptive_avg_pool2d(self.conv(x), (2, 3))",
}
NOT_POOLED = {
    "maximum": "return F.max_pool2d(self.conv(x), 2)",
    "padding counts": "return F.avg_pool2d(self.conv(x), 2, padding=1)",
    "incomplete windows": "return F.avg_pool2d(self.conv(x), 2, ceil_mode=True)",
    "another divisor": "return F.avg_pool2d(self.conv(x), 2, divisor_override=3)",
    "read twice": "y = self.conv(x)\n        return F.avg_pool2d(y, 2), y",
    "several pixels": "return F.avg_pool2d(self.wide(x), 2)",
    "an activation between": "return F.avg_pool2d(self.conv(x).relu(), 2)",
}


@pytest.mark.parametrize("form", POOLED)
def test_pooling_moves_before_the_convolution(form, tmp_path):
    case = task("2, 4, 7, 9", CONV, POOLED[form])
    assert_equal(case, tmp_path, "pool_first")
    names = called(case, pool_first)
    assert [name for name in names if "pool" in name or "conv" in name][-1] == "conv2d"


@pytest.mark.parametrize("form", NOT_POOLED)
def test_pooling_stays_where_the_result_would_differ(form):
    assert declined(task("2, 4, 7, 9", CONV, NOT_POOLED[form]), "pool_first")


DOUBLED = """self.up = nn.Upsample(scale_factor=2, mode='nearest'); self.conv = nn.Conv2d(4, 6, 3, padding=1)"""
AFTER_DOUBLING = {
    "nearest": "return self.conv(self.up(x)).relu()",
    "exact": "return self.conv(F.interpolate(x, scale_factor=2, mode='nearest-exact'))",
    "to a size": "return self.conv(F.interpolate(x, size=(10, 14)))",
}
NOT_AFTER_DOUBLING = {
    "smooth": "return self.conv(F.interpolate(x, scale_factor=2, mode='bilinear'))",
    "threefold": "return self.conv(F.interpolate(x, scale_factor=3))",
    "one way": "return self.conv(F.interpolate(x, size=(5, 14)))",
    "read elsewhere": "y = self.up(x); return self.conv(y), y",
    "steps": "return F.conv2d(self.up(x), self.conv.weight, self.conv.bias, stride=2, padding=1)",
    "no border": "return F.conv2d(self.up(x), self.conv.weight, self.conv.bias)",
}


@pytest.mark.parametrize("form", AFTER_DOUBLING)
def test_a_convolution_after_doubling_sees_the_pixels_before_it(form, tmp_path):
    case = task("2, 4, 5, 7", DOUBLED, AFTER_DOUBLING[form])
    assert_equal(case, tmp_path, "upsampled_convs")
    assert not [name for name in called(case, upsampled_convs) if "upsample" in name]


@pytest.mark.parametrize("form", NOT_AFTER_DOUBLING)
def test_other_convolutions_after_upsampling_stay(form):
    assert declined(task("2, 4, 5, 7", DOUBLED, NOT_AFTER_DOUBLING[form]), "upsampled_convs")


ROWS = "self.a = nn.Linear(8, 24); self.b = nn.Linear(8, 8); self.n = nn.LayerNorm(8); self.h = nn.Linear(8, 40)"
BLOCK = """q, k, v = self.a(x).reshape(2, 9, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 9, 8)
        x = x + self.b(y)
        x = x + F.gelu(self.b(self.n(x)))
        """
READ = {
    "first": (BLOCK + "return self.h(self.n(x)[:, 0])", 2),
    "last": (BLOCK + "return self.h(self.n(x))[:, -1].relu()", 2),
    "last three": (BLOCK + "return self.h(self.n(x)[:, -3:])", 6),
    "merged": ("return self.h(x.transpose(0, 1).reshape(18, 8)).reshape(9, 2, 40)[0]", 2),
    "softmax": ("return (torch.softmax(x @ x.mT, -1) @ self.n(x))[:, 4:6] * 2", 4),
    "norm by hand": ("return self.h(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))[:, 0].relu()", 2),
}
WHOLE = {
    "all": BLOCK + "return self.h(x)",
    "two rows apart": "y = self.h(x); return y[:, 0], y[:, 2]",
    "most rows": "return self.h(x)[:, 1:]",
    "a column": "return self.h(x)[..., 3]",
    "mixed": "return self.h(x).cumsum(1)[:, 0]",
    "returned too": "y = self.h(x); return y, y[:, 0]",
    "a part of a larger tensor": "return self.h(x)[:, 0].unsqueeze(1)",
    "every second": "return self.h(x)[:, ::2][:, :4]",
}


@pytest.mark.parametrize("form", READ)
def test_rows_that_nobody_reads_are_not_computed(form, tmp_path):
    body, rows = READ[form]
    case = task("2, 9, 8", ROWS, body)
    assert_equal(case, tmp_path, "unread_rows")
    inputs = case.reference.draw(1)
    graph = unread_rows(case.reference.model, inputs.args, inputs.kwargs)
    assert not done_for_effect(graph), "the whole of it is computed as well"
    products = [node for node in graph.graph.nodes if calls(node, "linear", "matmul")]
    assert math.prod(example_of(products[-1]).shape[:-1]) == rows


@pytest.mark.parametrize("form", WHOLE)
def test_rows_stay_where_others_are_read_or_mixed(form):
    assert declined(task("2, 9, 8", ROWS, WHOLE[form]), "unread_rows")


FIRE = "self.a = nn.Conv2d(6, 8, 1); self.b = nn.Conv2d(6, 5, 3, padding=1, bias=False); self.c = nn.Conv2d(8, 4, 1)"


def test_a_fire_module_is_one_convolution_and_one_activation(tmp_path):
    case = task("2, 6, 9, 7", FIRE, "return torch.cat([self.a(x).relu(), self.b(x).relu()], 1)")
    assert_equal(case, tmp_path, "merge_convs")
    assert [name for name in called(case, merge_convs) if name != "contiguous"] == ["conv2d", "relu"]


@pytest.mark.parametrize(
    "body",
    [
        "return torch.cat([self.b(x), self.a(x)], 1)",
        "return torch.cat([self.a(x).relu(), self.b(x)], 1)",
        "return torch.cat([x, self.a(x), self.b(x)], 1)",
        "return self.c(self.a(x).relu()), self.b(x)",
    ],
)
def test_merged_convolutions_go_where_single_ones_went(body, tmp_path):
    case = task("2, 6, 9, 7", FIRE, body)
    assert_equal(case, tmp_path, "merge_convs")
    assert called(case, merge_convs).count("conv2d") == body.count("self.") - 1


@pytest.mark.parametrize(
    ("layers", "body"),
    [
        ("self.a = nn.Conv2d(6, 4, 1); self.b = nn.Conv2d(6, 4, 1, stride=2)", "return self.a(x), self.b(x)"),
        ("self.a = nn.Conv2d(6, 4, 3); self.b = nn.Conv2d(6, 4, 1)", "return self.a(x), self.b(x)"),
        ("self.a = nn.Conv2d(6, 6, 1); self.b = nn.Conv2d(6, 6, 1, groups=2)", "return self.a(x), self.b(x)"),
        ("self.a = nn.Conv2d(6, 4, 1); self.b = nn.Conv2d(4, 4, 1)", "return self.b(self.a(x))"),
    ],
)
def test_convolutions_that_step_differently_are_not_merged(layers, body):
    assert declined(task("2, 6, 9, 7", layers, body), "merge_convs")


def test_filters_of_several_sizes_are_not_filled_up_where_products_cost():
    layers = "self.a = nn.Conv2d(32, 4, 1); self.b = nn.Conv2d(32, 4, 3, padding=1); self.c = nn.Conv2d(32, 2, 1)"
    case = task("1, 32, 5, 5", layers, "return self.a(x), self.b(x), self.c(x)")
    assert called(case, merge_convs).count("conv2d") == 2


ATTENTION = "self.heads = 2; self.register_buffer('mask', torch.tril(torch.ones(40, 40)))"
RECTIFIED = """q, k, v = x.unbind(0)
        scores = (q @ k.mT * 0.3).masked_fill(self.mask[:37, :37] == 0, float('-inf'))
        return torch.relu(scores) @ v"""


@pytest.mark.parametrize(("precision", "comes_first"), [(Precision.HALF, False), (Precision.TF32, True)])
def test_a_gpu_takes_rectified_attention_whole_in_16_bits(precision, comes_first):
    """Blocks of it took longer there; a search still tries them, when something else has been measured."""
    case = task("3, 2, 2, 37, 4", ATTENTION, RECTIFIED)
    found = explore(case.problem(CUDA, EvaluateOptions(precision=precision)))
    assert "relu_attention" in found.applicable
    assert ("relu_attention" in found.space.ideas(1)[0]) is comes_first
    assert any("relu_attention" in names for names in found.space.ranked)


def test_rectified_attention_skips_the_future(tmp_path):
    case = task("3, 2, 2, 37, 4", ATTENTION, RECTIFIED)
    assert_equal(case, tmp_path, "relu_attention")
    inputs = case.reference.draw(1)
    graph = relu_attention(case.reference.model, inputs.args, inputs.kwargs)
    masks = [tensor.shape for name, tensor in graph.named_buffers() if name.startswith("blocked")]
    assert sum(rows * keys for rows, keys in masks) < 37 * 37, "no work was saved"
    assert all(rows < 37 for rows, _ in masks)


@pytest.mark.parametrize(
    "body",
    [
        "q, k, v = x.unbind(0)\n        return torch.relu(q @ k.mT) @ v",
        "q, k, v = x.unbind(0)\n        return torch.relu((q @ k.mT).masked_fill(self.mask.T == 0, float('-inf'))) @ v",
        "q, k, v = x.unbind(0)\n        return torch.relu((q @ k.mT).masked_fill(self.mask == 0, 1.0)) @ v",
        "q, k, v = x.unbind(0)\n        return torch.relu((q @ k.mT).masked_fill(self.mask == 0, float('-inf')) + 1) @ v",
    ],
)
def test_rectified_attention_that_sees_the_future_is_left(body):
    assert declined(task("3, 2, 2, 40, 4", ATTENTION, body), "relu_attention")


LAYERS = "self.a = nn.Linear(12, 20); self.b = nn.Linear(20, 3, bias=False)"


@pytest.mark.parametrize("shape", ["1, 12", "2, 3, 12", "12"])
def test_few_rows_become_sums_of_products(shape):
    case = task(shape, LAYERS, "return self.b(self.a(x).relu())")
    assert declined(case, "narrow_linears", CUDA) == ""
    inputs = case.reference.draw(1)
    graph = narrow_linears(case.reference.model, inputs.args, inputs.kwargs)
    assert called(case, narrow_linears).count("linear") == 0
    torch.testing.assert_close(graph(*inputs.args), case.reference.model(*inputs.args))


def test_many_rows_stay_a_product():
    assert "8 rows" in declined(task("3, 3, 12", LAYERS, "return self.a(x)"), "narrow_linears", CUDA)
    assert declined(task("1, 12", LAYERS, "return self.a(x)"), "narrow_linears", CPU)


ROTATION = "self.register_buffer('turn', torch.polar(torch.ones(5, 4), torch.randn(5, 4)))"
ROTATED = (
    "y = torch.view_as_complex(x.unflatten(-1, (-1, 2)))\n        return torch.view_as_real({product}).flatten(-2)"
)


@pytest.mark.parametrize("product", ["y * self.turn", "self.turn[:5] * y"])
def test_complex_rotations_become_real(product, tmp_path):
    case = task("3, 5, 8", ROTATION, ROTATED.replace("{product}", product))
    inputs = case.reference.draw(1)
    assert_close = torch.testing.assert_close
    graph = real_rotations(case.reference.model, inputs.args, inputs.kwargs)
    assert_close(graph(*inputs.args), case.reference.model(*inputs.args))
    assert "view_as_complex" not in called(case, real_rotations)


def test_other_products_of_complex_numbers_are_left():
    case = task("3, 5, 8", ROTATION, ROTATED.replace("{product}", "y * y.conj()"))
    assert declined(case, "real_rotations")


FORMS = {
    "pool_first": ("2, 4, 7, 9", CONV, POOLED["average"]),
    "merge_convs": ("2, 6, 9, 7", FIRE, "return torch.cat([self.a(x).relu(), self.b(x).relu()], 1)"),
    "relu_attention": ("3, 2, 2, 37, 4", ATTENTION, RECTIFIED),
    "narrow_linears": ("1, 12", LAYERS, "return self.b(self.a(x).relu())"),
}


@pytest.mark.parametrize("recipe", FORMS)
def test_rewrites_go_on_in_16_bits(recipe):
    case = task(*FORMS[recipe])
    inputs = case.reference.draw(1)
    model = copy.deepcopy(case.reference.model).requires_grad_(False)
    for name in ordered([recipe, "bf16"]):
        model = BY_NAME[name].transform(model, inputs.args, inputs.kwargs)
    with torch.no_grad():
        got, want = model(*inputs.args), case.reference.model(*inputs.args)
    assert got.dtype == want.dtype
    error = float((got - want).square().mean().sqrt() / want.std())
    assert 1e-6 < error < 0.03, "16 bits are used, and leave the answer what it is"
