"""`prefix_attention`: which masks it takes apart, and that what is left gives the same answers with fewer products."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from recipe_harness import Case, source_task

from pike.recipes.registry import BY_NAME
from pike.recipes.rewrites.prefix_attention import blocks_of, prefix_attention, seen_keys

NET = """
import torch
from torch import nn
from torch.nn import functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(8, 16)
        self.register_buffer("low", torch.zeros(384, 384).masked_fill(torch.ones(384, 384).triu(1).bool(), float("-inf")))
    def heads(self, x):
        return x.unflatten(-1, (2, 8)).transpose(1, 2)
    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        frame = torch.arange(384) // 128
        {body}
def get_inputs():
    return [torch.randn(3, 384, 8)]
def get_init_inputs():
    return []
"""
FRAMES = "frame[:, None] >= frame"
FORMS = {
    "frames": f"return F.scaled_dot_product_attention(q, k, v, attn_mask={FRAMES})",
    "heads and a scale": (
        f"return F.scaled_dot_product_attention(*map(self.heads, (q, k, v)), attn_mask=({FRAMES})[None, None], scale=0.3)"
    ),
    "minus infinity": (
        f"low = torch.zeros(384, 384).masked_fill(~({FRAMES}), float('-inf'))\n"
        "        return F.scaled_dot_product_attention(q, k, v, low)"
    ),
    "the future": "return F.scaled_dot_product_attention(*map(self.heads, (q, k, v)), self.low)",
    "a chunk of queries": f"return F.scaled_dot_product_attention(q[:, 128:], k, v, attn_mask=({FRAMES})[128:])",
}
LEFT = {
    "chance": f"return F.scaled_dot_product_attention(q, k, v, attn_mask={FRAMES}, dropout_p=0.5)",
    "a window": "return F.scaled_dot_product_attention(q, k, v, attn_mask=frame[:, None] == frame)",
    "a bias": f"return F.scaled_dot_product_attention(q, k, v, attn_mask=({FRAMES}).float())",
    "a mask that varies": "return F.scaled_dot_product_attention(q, k, v, attn_mask=x[:, :, :1] > x[:, :, 0][:, None])",
    "a mask for each head": (
        f"two = torch.stack([{FRAMES}, frame[:, None] <= frame])[None]\n"
        "        return F.scaled_dot_product_attention(*map(self.heads, (q, k, v)), attn_mask=two)"
    ),
    "no mask": "return F.scaled_dot_product_attention(q, k, v)",
}


def case_of(body: str) -> Case:
    return Case.of(source_task(NET.replace("{body}", body)))


def declined(case: Case) -> str:
    return BY_NAME["prefix_attention"].declines(case.problem())


@pytest.mark.parametrize("form", FORMS)
def test_blocks_give_the_same_answers(form: str, tmp_path: Path) -> None:
    case = case_of(FORMS[form])
    assert declined(case) == ""
    candidate = case.build(tmp_path, "prefix_attention")
    for rng in (3, 4):
        error, own = case.errors(candidate, case.reference.draw(rng))
        assert error <= 2 * own + 5e-7


def test_each_block_reads_its_own_keys_only() -> None:
    case = case_of(FORMS["frames"])
    inputs = case.reference.draw(1)
    graph = prefix_attention(case.reference.model, inputs.args, inputs.kwargs)
    calls = [node for node in graph.graph.nodes if "scaled_dot_product" in str(node.target)]
    shapes = [(call.args[0].meta["val"].shape[-2], call.args[1].meta["val"].shape[-2]) for call in calls]
    assert shapes == [(128, 128), (128, 256), (128, 384)]
    assert not any(call.kwargs.get("attn_mask") is not None or len(call.args) > 3 for call in calls)


@pytest.mark.parametrize("form", LEFT)
def test_other_masks_are_left(form: str) -> None:
    case = case_of(LEFT[form])
    if form == "chance":
        assert "different answers" in case.problem().unsteady
    assert declined(case)


def test_a_mask_is_taken_apart_only_where_that_pays() -> None:
    def seen(*ends: int) -> torch.Tensor:
        return torch.arange(64) < torch.tensor(ends)[:, None]

    assert blocks_of(seen(*[32] * 128, *[64] * 128)).parts == ((0, 128, 32), (128, 256, 64))
    assert blocks_of(seen(*range(1, 65))).causal
    assert blocks_of(seen(*[32] * 127, *[64] * 127)) is None, "small blocks"
    assert blocks_of(seen(*[60] * 128, *[64] * 128)) is None, "nearly everything is seen"
    assert blocks_of(seen(*[0] * 128, *[64] * 128)) is None, "a row that sees nothing is not a number"
    assert blocks_of(seen(*[32] * 128).flip(1)) is None, "an end of the keys"
    assert seen_keys(torch.zeros(2, 1, 4, 4, dtype=torch.bool)) is None
    assert seen_keys(torch.tensor([[0.0, -1e9]])) is None, "a low number is not minus infinity"
