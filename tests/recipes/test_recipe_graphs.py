"""Graph recipes rewrite exactly what is equivalent, and say why they leave the rest."""

from __future__ import annotations

import pytest
import torch
from recipe_harness import CPU, CUDA, Case, source_task

from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import EvaluateOptions, Precision

ATTENTION = """
import math
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)))
        self.bias = torch.nn.Parameter(torch.randn(2, 6, 6))
        self.low = -1e10
    def forward(self, x):
        q, k, v = x.unbind(0)
        {body}
def get_inputs():
    return [torch.randn(3, 2, 2, 6, 4)]
def get_init_inputs():
    return []
"""

EQUIVALENT = {
    "plain": "return torch.softmax(q @ k.transpose(-2, -1), -1) @ v",
    "scaled query": "return (q / 2 @ k.mT).softmax(3) @ v",
    "causal": "return (q @ k.mT * 0.5).masked_fill(self.mask == 0, float('-inf')).softmax(-1) @ v",
    "causal before the scale": "return ((q @ k.mT).masked_fill(self.mask == 0, float('-inf')) * 0.5).softmax(-1) @ v",
    "causal made in forward": "return (q @ k.mT + torch.full((6, 6), float('-inf')).triu(1)).softmax(-1) @ v",
    "window": "return torch.where(self.mask.triu(-2) == 1, q @ k.mT, -1e10).softmax(-1) @ v",
    "bias": "return (q @ k.mT / math.sqrt(4) + self.bias).softmax(-1) @ v",
    "bias inside the scale": "return ((self.bias + q @ k.mT) / 3).softmax(-1) @ v",
    "bias and mask": "return (q @ k.mT + self.bias).masked_fill(self.mask == 0, -1e10).softmax(-1) @ v",
    "three dimensions": "return torch.bmm(torch.softmax(torch.bmm(q[0], k[0].transpose(1, 2)) * 2, 2), v[0])",
    "dropout in eval mode": "return torch.nn.functional.dropout((q @ k.mT).softmax(-1), 0.5, self.training) @ v",
}
DIFFERENT = {
    "other dimension": "return (q @ k.mT).softmax(-2) @ v",
    "fully masked row": "return (q @ k.mT).masked_fill(self.mask.tril(-1) == 0, float('-inf')).softmax(-1).nan_to_num() @ v",
    "mask from the input": "return (q @ k.mT).masked_fill(x[0, :, :, :1, :1] > 0, float('-inf')).softmax(-1).nan_to_num() @ v",
    "shallow fill": "return (q @ k.mT).masked_fill(self.mask == 0, -1.0).softmax(-1) @ v",
    "scores used twice": "s = q @ k.mT\n        return s.softmax(-1) @ v + s.sum()",
    "weights returned": "p = (q @ k.mT).softmax(-1)\n        return p @ v, p",
    "negative scale": "return (q @ k.mT * -1).softmax(-1) @ v",
}


@pytest.mark.parametrize("form", EQUIVALENT)
def test_written_out_attention_is_replaced(form, tmp_path):
    case = Case.of(source_task(ATTENTION.replace("{body}", EQUIVALENT[form])))
    candidate = case.build(tmp_path, "sdpa")
    for rng in (1, 2):
        error, own = case.errors(candidate, case.reference.draw(rng))
        assert error <= 2 * own + 5e-7
    called = {str(node.target) for node in candidate.prepared[1].graph.nodes}
    assert "aten.scaled_dot_product_attention.default" in called
    assert not any("softmax" in target for target in called)
    for node in candidate.prepared[1].graph.nodes:
        if "scaled_dot_product" in str(node.target) and form.startswith("causal") and "forward" not in form:
            assert node.kwargs["is_causal"] is True


@pytest.mark.parametrize("form", DIFFERENT)
def test_what_is_not_certainly_equivalent_is_left(form):
    case = Case.of(source_task(ATTENTION.replace("{body}", DIFFERENT[form])))
    assert "no written-out softmax attention" in case.compose("sdpa").failure


LAYERS = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 4, 3, groups=2)
        self.norm = torch.nn.BatchNorm2d(4, affine=False)
        self.a, self.b, self.c = (torch.nn.Linear(4, n) for n in (2, 3, 5))
        self.free = torch.nn.Linear(4, 5, bias=False)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
    def forward(self, x):
        {body}
def get_inputs():
    return [torch.randn(2, 4, 5, 5)]
def get_init_inputs():
    return []
"""


def layers(body: str) -> Case:
    return Case.of(source_task(LAYERS.replace("{body}", body)))


@pytest.mark.parametrize(
    ("recipe", "body"),
    [
        ("fold_batch_norm", "return self.norm(self.conv(x))"),
        ("fold_batch_norm", "x = self.norm(self.conv(x)); x.relu_(); x[:, 0] = 3; return x"),
        ("fuse_linears", "y = x.mean((2, 3)); return self.a(y), self.b(y).view(2, 3, 1), self.c(y), self.free(y)"),
        ("channels_last", "y = self.conv(x); return y.view(2, -1), y"),
        ("fold_constants", "return x * (self.a.weight.t() @ self.a.weight).sum().sigmoid()"),
    ],
)
def test_a_rewrite_changes_no_value(recipe, body, tmp_path):
    case = layers(body)
    candidate = case.build(tmp_path, recipe)
    for rng in (1, 2):
        error, own = case.errors(candidate, case.reference.draw(rng))
        assert error <= 2 * own + 3e-7


VOLUMES = """
import torch
from torch.nn import functional as F
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv3d(3, 8, 3), torch.nn.GroupNorm(2, 8)
        self.second = torch.nn.Conv3d(8, 4, 3, stride=(1, 2, 2))
    def forward(self, x):
        x = self.first(F.pad(x, (1, 1, 1, 1, 2, 0), mode="replicate"))
        return self.second(F.silu(self.norm(x))), x.flatten(2)
def get_inputs():
    return [torch.randn(2, 3, 4, 6, 6)]
def get_init_inputs():
    return []
"""


def test_volumes_are_laid_out_with_channels_innermost_too(tmp_path):
    case = Case.of(source_task(VOLUMES))
    candidate = case.build(tmp_path, "channels_last")
    error, own = case.errors(candidate, case.reference.draw(1))
    assert error <= 2 * own + 3e-7
    _, graph = candidate.prepared
    weights = [getattr(graph, node.args[1].target) for node in graph.graph.nodes if "conv3d" in str(node.target)]
    assert [weight.is_contiguous(memory_format=torch.channels_last_3d) for weight in weights] == [True, True]


@pytest.mark.parametrize(
    ("recipe", "body", "reason"),
    [
        ("fold_batch_norm", "y = self.conv(x); return self.norm(y) + y", "no batch norm follows"),
        ("fuse_linears", "y = x.mean((2, 3)); return self.a(y), self.free(y)", "no two linear layers"),
        ("channels_last", "return x.mean()", "no convolution of images"),
        ("fold_constants", "return x + 1", "depends on weights only"),
        ("sdpa", "return x if x.sum() > 0 else -x", "cannot be captured"),
        ("compile", "self.seen = getattr(self, 'seen', 0) + 1; return x * self.seen", "different answers"),
        ("compile", "return x + torch.rand(())", "different answers"),
        ("trace_frozen", "self.norm.running_mean += 0; return x", "changes its own"),
    ],
)
def test_a_recipe_that_does_not_apply_says_why(recipe, body, reason):
    options = EvaluateOptions()
    assert reason in layers(body).compose(recipe, options=options).failure


@pytest.mark.parametrize(
    ("recipe", "facts", "precision", "reason"),
    [
        ("compile", DeviceFacts("cpu", "bare"), Precision.SAME, "needs g\\+\\+ or clang"),
        ("compile", DeviceFacts("cuda:0", "bare", compilers=("g++",)), Precision.SAME, "needs triton"),
        ("cuda_graph", CPU, Precision.SAME, "needs? an NVIDIA GPU"),
        ("reduce_overhead", CPU, Precision.SAME, "needs? an NVIDIA GPU"),
        ("half", CUDA, Precision.SAME, "not allowed"),
        ("half", CUDA, Precision.TF32, "not allowed"),
        ("bf16", CPU, Precision.SAME, "not allowed"),
        ("tf32", CUDA, Precision.SAME, "not allowed"),
        ("tf32", DeviceFacts("cuda:0", "T4", capability="7.5"), Precision.TF32, "compute capability 8.0"),
        ("trace_frozen", CUDA, Precision.SAME, "CPUs only"),
    ],
)
def test_machine_and_terms_decide(recipe, facts, precision, reason):
    import re

    failure = (
        layers("return self.norm(self.conv(x))")
        .compose(recipe, facts=facts, options=EvaluateOptions(precision=precision))
        .failure
    )
    assert re.search(reason, failure)


def test_half_brings_constants_into_range(tmp_path):
    case = Case.of(
        source_task(
            ATTENTION.replace(
                "{body}",
                "return (q @ k.mT).masked_fill(self.mask == 0, -3e38).float().softmax(-1) @ v * torch.ones(6, 1)",
            )
        )
    )
    with torch.no_grad():
        candidate = case.build(tmp_path, "bf16")
        inputs = case.reference.draw(1)
        y = candidate(*inputs.args)
        assert y.dtype == torch.float32
        assert torch.allclose(y, case.reference.model(*inputs.args), atol=0.1)


def test_a_model_that_cannot_be_captured_is_said_to_be_so_and_nothing_is_printed(capfd):
    counts = layers("return x * torch.bincount(x.flatten().long().abs(), minlength=3).tolist()[0]")
    assert "data-dependent" in counts.compose("sdpa").failure
    assert capfd.readouterr().err == ""
