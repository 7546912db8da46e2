"""Winograd convolutions: right at every border and size, with the rounding error that is promised."""

from __future__ import annotations

import itertools

import pytest
import torch
from recipe_harness import CPU, CUDA, Case, source_task

from pike.core.device import DeviceFacts
from pike.recipes.kernels.winograd_kernel import winograd_conv3x3, winograd_matrices, winograd_packed


@pytest.mark.parametrize("tile", [2, 4])
def test_the_transforms_are_exact(tile):
    """In rational arithmetic the algorithm is the convolution itself."""
    outputs, filters, inputs = winograd_matrices(tile)
    data, taps = range(3, 3 + tile + 2), (2, -7, 5)

    def dot(row, values):
        return sum(one * other for one, other in zip(row, values, strict=True))

    product = [dot(f, taps) * dot(i, data) for f, i in zip(filters, inputs, strict=True)]
    want = [dot(taps, list(data)[start : start + 3]) for start in range(tile)]
    assert [dot(row, product) for row in outputs] == want


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("size", [(1, 4, 4), (2, 5, 9), (3, 14, 7), (1, 57, 30)])
@pytest.mark.parametrize("extras", list(itertools.product([False, True], repeat=3)))
def test_it_is_the_convolution(tile, size, extras):
    torch.manual_seed(0)
    has_bias, has_add, relu = extras
    batch, height, width = size
    x, weight = torch.randn(batch, 32, height, width), torch.randn(64, 32, 3, 3) / 17
    bias = torch.randn(64) if has_bias else None
    add = torch.randn(batch, 64, height, width) if has_add else None
    y = winograd_conv3x3(x, winograd_packed(weight, tile), bias, add, relu, tile)
    exact = torch.nn.functional.conv2d(x.double(), weight.double(), None if bias is None else bias.double(), padding=1)
    exact = exact if add is None else exact + add
    exact = exact.relu() if relu else exact
    assert y.shape == exact.shape
    assert float((y - exact).abs().max()) < 1e-5


def test_the_rounding_error_is_what_the_documentation_promises():
    torch.manual_seed(0)
    x, weight = torch.randn(1, 64, 28, 28), torch.randn(64, 64, 3, 3) / 24
    exact = torch.nn.functional.conv2d(x.double(), weight.double(), padding=1)
    direct = float((torch.nn.functional.conv2d(x, weight, padding=1) - exact).square().mean().sqrt())
    errors = {
        tile: float(
            (winograd_conv3x3(x, winograd_packed(weight, tile), None, None, False, tile) - exact).square().mean().sqrt()
        )
        for tile in (2, 4)
    }
    assert errors[2] < 1.6 * direct
    assert errors[4] < 4.5 * direct


def test_nan_and_infinity_reach_the_output():
    x, weight = torch.randn(1, 16, 8, 8), torch.randn(64, 16, 3, 3)
    x[0, 3, 4, 4] = float("nan")
    y = winograd_conv3x3(x, winograd_packed(weight, 4), None, None, True, 4)
    assert bool(y[:, :, 3:6, 3:6].isnan().all())


NET = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(16, 64, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(64)
        self.mid = torch.nn.Conv2d(64, 64, 3, padding=1)
        self.down = torch.nn.Conv2d(64, 64, 3, stride=2, padding=1)
        self.norm.running_mean.normal_()
    def forward(self, x):
        y = torch.relu(self.norm(self.stem(x)))
        y = torch.relu(self.mid(y) + y)
        return self.mid(y), self.down(y) + self.mid(y)[:, :, ::2, ::2]
def get_inputs():
    return [torch.randn(2, 16, 10, 9)]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("recipe", ["winograd2", "winograd4"])
def test_convolutions_of_a_model_are_replaced_with_what_follows_them(recipe, tmp_path):
    case = Case.of(source_task(NET))
    candidate = case.build(tmp_path, "fold_batch_norm", recipe)
    error, own = case.errors(candidate, case.reference.draw(1))
    assert error <= 4 * own
    nodes = list(candidate.prepared[1].graph.nodes)
    kernels = [node for node in nodes if "pike_winograd" in str(node.target)]
    assert [(node.args[3] is not None, node.args[4]) for node in kernels] == [
        (False, True),
        (True, True),
        (False, False),
        (False, False),
    ]
    assert sum("conv2d" in str(node.target) for node in nodes) == 1
    assert not any("relu" in str(node.target) for node in nodes)


@pytest.mark.slow
def test_the_kernel_compiles_into_a_larger_graph(tmp_path):
    case = Case.of(source_task(NET))
    candidate = case.build(tmp_path, "fold_batch_norm", "winograd4", "compile", "freeze")
    for rng in (1, 2):
        error, own = case.errors(candidate, case.reference.draw(rng))
        assert error <= 4 * own


def test_it_declines_where_it_cannot_work():
    case = Case.of(source_task(NET))
    assert "for CPUs" in case.compose("winograd4", facts=CUDA).failure
    assert "g++" in case.compose("winograd4", facts=DeviceFacts("cpu", "bare")).failure
    narrow = Case.of(source_task(NET.replace("64", "48")))
    assert "no 3 x 3 convolution" in narrow.compose("winograd4", facts=CPU).failure
