"""`few_queries`: which attention it takes apart, and that what is left gives the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from recipe_harness import Case, source_task

from pike.recipes.capture.graph import nodes_calling
from pike.recipes.registry import BY_NAME
from pike.recipes.rewrites.few_queries import few_queries

NET = """
import torch
from torch import nn
from torch.nn import functional as F
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(32, 64), nn.Linear(32, {width}), nn.Linear(32, {width})
        self.register_buffer("keys", torch.randn(2, {groups}, 300, 16))
        self.register_buffer("values", torch.randn(2, {groups}, 300, 16))
        self.register_buffer("shown", torch.ones(1, 301, dtype=torch.bool))
    def heads(self, x):
        return x.unflatten(-1, (-1, 16)).transpose(1, 2)
    def repeated(self, x):
        return x[:, :, None].expand(-1, -1, 4 // {groups}, -1, -1).reshape(2, 4, -1, 16)
    def forward(self, x):
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        keys, values = torch.cat([self.keys, k], 2), torch.cat([self.values, v], -2)
        {body}
def get_inputs():
    return [torch.randn(2, {queries}, 32)]
def get_init_inputs():
    return []
"""
PLAIN = "return F.scaled_dot_product_attention(q, keys, values)"
FORMS = {
    "joined": (4, 1, PLAIN),
    "joined, five queries": (4, 5, PLAIN),
    "a scale and a mask that shows all": (
        4,
        1,
        "return F.scaled_dot_product_attention(q, keys, values, attn_mask=self.shown, scale=0.3)",
    ),
    "a bias of zeros": (
        4,
        1,
        "return F.scaled_dot_product_attention(q, keys, values, attn_mask=1.0 - self.shown.float())",
    ),
    "repeated": (
        2,
        1,
        "return F.scaled_dot_product_attention(q, self.repeated(keys), self.repeated(values))",
    ),
    "repeated, three queries": (
        2,
        3,
        "return F.scaled_dot_product_attention(q, self.repeated(keys), self.repeated(values))",
    ),
    "repeated by the operator": (1, 1, "return F.scaled_dot_product_attention(q, keys, values, enable_gqa=True)"),
    "repeated, and the joined keys are read elsewhere": (
        2,
        1,
        "return F.scaled_dot_product_attention(q, self.repeated(keys), self.repeated(values)), keys",
    ),
}
LEFT = {
    "many queries": (4, 17, PLAIN),
    "the joined keys are read elsewhere": (4, 1, f"{PLAIN}, keys.sum(2)"),
    "a mask that hides one key": (
        4,
        1,
        "return F.scaled_dot_product_attention(q, keys, values, attn_mask=self.shown & (torch.arange(301) != 7))",
    ),
    "a mask that varies": (
        4,
        1,
        "return F.scaled_dot_product_attention(q, keys, values, attn_mask=self.shown | (x[0, 0, 0] > 9))",
    ),
    "a bias": (
        4,
        1,
        "return F.scaled_dot_product_attention(q, keys, values, attn_mask=self.shown.float())",
    ),
    "only the first key": (4, 1, "return F.scaled_dot_product_attention(q, keys, values, is_causal=True)"),
    "two types are joined": (
        4,
        1,
        "return F.scaled_dot_product_attention(q, torch.cat([self.keys.half(), k], 2), values)",
    ),
    "neither joined nor repeated": (4, 1, "return F.scaled_dot_product_attention(q + k, self.keys, self.values + v)"),
}


def case_of(groups: int, queries: int, body: str) -> Case:
    parts = {"groups": groups, "width": 16 * groups, "queries": queries, "body": body}
    source = NET
    for name, part in parts.items():
        source = source.replace("{" + name + "}", str(part))
    return Case.of(source_task(source))


@pytest.mark.parametrize("form", FORMS)
def test_parts_give_the_same_answers(form: str, tmp_path: Path) -> None:
    case = case_of(*FORMS[form])
    assert case.declined["few_queries"] == ""
    candidate = case.build(tmp_path, "few_queries")
    for rng in (3, 4):
        error, own = case.errors(candidate, case.reference.draw(rng))
        assert error <= 2 * own + 5e-7


@pytest.mark.parametrize("form", LEFT)
def test_other_attention_is_left_alone(form: str) -> None:
    assert "at most 16 queries" in BY_NAME["few_queries"].declines(case_of(*LEFT[form]).problem())


def test_keys_are_neither_joined_nor_repeated() -> None:
    case = case_of(*FORMS["repeated"])
    graph = few_queries(case.reference.model, case.reference.draw(1).args, {})
    assert not nodes_calling(graph, "scaled_dot_product_attention", "expand", "clone")
    assert max(node.meta["val"].numel() for node in nodes_calling(graph, "cat")) == 2 * 4 * 301
    reads = [node for node in nodes_calling(graph, "matmul") if node.meta["val"].shape[-1] == 300]
    assert [node.meta["val"].shape for node in reads] == [torch.Size([2, 2, 2, 300])]


def test_it_goes_with_sixteen_bits(tmp_path: Path) -> None:
    case = case_of(*FORMS["repeated"])
    candidate = case.build(tmp_path, "few_queries", "bf16", "fold_constants")
    with torch.no_grad():
        inputs = case.reference.draw(5).args
        wanted, got = case.reference.model(*inputs), candidate(*inputs)
    assert (got - wanted).norm() <= 0.02 * wanted.norm()
