"""Every recipe on every small demo task gives the reference's outputs, or declines."""

from __future__ import annotations

import functools

import pytest
import torch
from recipe_harness import Case, small_task, source_task

from pike import tasks
from pike.recipes import RECIPES

NARROW = {"bf16": 0.05, "autocast_bf16": 0.05, "half": 0.02, "autocast_half": 0.02}
"""Error allowed to 16-bit recipes, relative to the output's size."""

COMPILED = {"compile", "inductor", "max_autotune", "freeze"}
APPLY = {
    "resnet18": {
        "fold_batch_norm",
        "merge_convs",
        "bf16",
        "autocast_bf16",
        "channels_last",
        "trace_frozen",
        "fold_constants",
        *COMPILED,
    },
    "mobilenet": {
        "fold_batch_norm",
        "bf16",
        "autocast_bf16",
        "channels_last",
        "trace_frozen",
        "fold_constants",
        *COMPILED,
    },
    "gpt_block": {"sdpa", "fuse_linears", "bf16", "autocast_bf16", "trace_frozen", "fold_constants", *COMPILED},
    "attention": {"sdpa", "fuse_linears", "bf16", "autocast_bf16", "trace_frozen", "fold_constants", *COMPILED},
}


@functools.cache
def case(name: str) -> Case:
    return Case.of(small_task(name))


def assert_equivalent(name: str, folder, *recipes: str) -> None:
    candidate = case(name).build(folder, *recipes)
    for rng in (5, 6):
        inputs = case(name).reference.draw(rng)
        error, own = case(name).errors(candidate, inputs)
        size = float(case(name).reference.model(*inputs.args).detach().std())
        slack = max((NARROW.get(recipe, 0.0) for recipe in recipes), default=0.0)
        assert error <= 2 * own + 4e-7 * size + slack * size, (name, recipes, error, own)
    assert candidate.prepared is not None, "the fast way was never built"


@pytest.mark.parametrize("name", APPLY)
@pytest.mark.parametrize("recipe", [recipe.name for recipe in RECIPES if recipe.name not in COMPILED])
def test_each_recipe_is_equivalent_or_declines(name, recipe, tmp_path):
    if recipe in APPLY[name]:
        assert_equivalent(name, tmp_path, recipe)
    else:
        assert case(name).declined[recipe]


@pytest.mark.parametrize(
    ("name", "recipes"),
    [
        ("resnet18", ("fold_batch_norm", "channels_last", "trace_frozen")),
        ("resnet18", ("fold_batch_norm", "bf16", "channels_last")),
        ("mobilenet", ("channels_last", "autocast_bf16")),
        ("gpt_block", ("sdpa", "fuse_linears", "trace_frozen")),
        ("gpt_block", ("sdpa", "fuse_linears", "bf16")),
        ("attention", ("sdpa", "fuse_linears")),
    ],
)
def test_compositions_are_equivalent(name, recipes, tmp_path):
    assert_equivalent(name, tmp_path, *recipes)


@pytest.mark.slow
@pytest.mark.parametrize("name", APPLY)
@pytest.mark.parametrize(
    "recipes",
    [
        ("inductor", "freeze"),
        ("channels_last", "compile", "freeze"),
        ("sdpa", "fuse_linears", "inductor"),
    ],
)
def test_compiled_compositions_are_equivalent(name, recipes, tmp_path):
    if not APPLY[name].issuperset(recipes):
        pytest.skip("a recipe declines")
    assert_equivalent(name, tmp_path, *recipes)


TINY = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
    def forward(self, x, *, scale=2.0):
        return {"y": torch.relu(self.linear(x)) * scale, "parts": (x + 1, x.sum(-1))}
def get_inputs():
    return {"x": torch.randn(4, 8), "scale": 3.0}
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    "recipes", [("compile", "freeze"), ("inductor", "freeze"), ("trace_frozen",), ("bf16",), ("autocast_bf16",)]
)
def test_keyword_arguments_and_nested_outputs_survive(recipes, tmp_path):
    tiny = Case.of(source_task(TINY))
    candidate = tiny.build(tmp_path, *recipes)
    for rng in (2, 3):
        error, own = tiny.errors(candidate, tiny.reference.draw(rng))
        assert error <= 2 * own + (0.1 if "bf16" in recipes[0] else 1e-6)


@pytest.mark.parametrize("compiler", ["compile", "inductor"])
def test_a_frozen_graph_has_its_weights_packed(compiler, tmp_path):
    """Guards against the option that inductor ignores silently: then nothing would be folded."""
    tiny = Case.of(source_task(TINY))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    candidate = tiny.build(tmp_path, compiler, "freeze")
    inputs = tiny.reference.draw(1)
    with torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
        candidate(*inputs.args, **inputs.kwargs)
    assert torch._dynamo.utils.counters["inductor"]["mkldnn_linear_weight_pack_matcher_count"] == 1
    assert bool(torch._dynamo.utils.counters["frames"]) == (compiler == "compile")  # guards come with frames


def test_a_live_module_is_wrapped_by_from_reference(tmp_path):
    encoder = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    live = Case.of(tasks.from_module(encoder, (torch.randn(2, 5, 16),), {}, folder=tmp_path))
    candidate = live.build(tmp_path, "trace_frozen")
    inputs = live.reference.draw(3)
    error, own = live.errors(candidate, inputs)
    assert error <= 2 * own + 1e-6
    assert candidate.state_dict().keys() == encoder.state_dict().keys()
