"""What callers notice beyond values survives a capture: the model's own checks, and which outputs share memory."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from recipe_harness import CPU, CUDA, Case, source_task
from torch._inductor.utils import fresh_cache

from pike.recipes.capture.graph import capture_graph
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import look
from pike.recipes.registry import BY_NAME

NET = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.register_buffer("table", torch.arange(8.0))
    def forward(self, x):
        h = self.linear(x)
        {body}
def get_inputs():
    return [torch.rand(4, 8)]
def get_init_inputs():
    return []
"""


def case_of(body: str) -> Case:
    return Case.of(source_task(NET.replace("{body}", body)))


CHECKS = {
    "without a message": "torch._assert_async((x < 5).all()); return h",
    "with a message": "torch._assert_async((x < 5).all(), 'too large'); return h",
    "beside a write in place": "h.add_(1); torch._assert_async((x < 5).all()); return h",
    "of a number": "torch._check((x.amax() * 2).long().item() < 10); return h",
    "of a size": "big = h[x.sum(-1) > 40]; torch._check(big.shape[0] < 1); return h, big.sum()",
}


@pytest.mark.parametrize("check", CHECKS)
def test_checks_of_the_model_stay_and_what_would_drop_them_declines(check: str, tmp_path: Any) -> None:
    case = case_of(CHECKS[check])
    problem = case.problem(CPU)
    assert "a trace would" in look(BY_NAME["trace_frozen"], problem).declined
    x = torch.rand(4, 8)
    with torch.no_grad():
        captured = capture_graph(copy.deepcopy(case.reference.model), (x,), {})
        captured(x)
        for run in (case.reference.model, captured):
            with pytest.raises(RuntimeError):
                run(x + 9)


@pytest.mark.slow
@pytest.mark.parametrize("check", ["without a message", "with a message"])
@pytest.mark.parametrize("recipe", ["compile", "inductor"])
def test_compilers_keep_checks_of_the_model(check: str, recipe: str, tmp_path: Any) -> None:
    candidate = case_of(CHECKS[check]).build(tmp_path, recipe)
    x = torch.rand(4, 8)
    with torch.no_grad(), fresh_cache():
        candidate(x)
        with pytest.raises(RuntimeError):
            candidate(x + 9)


def test_checks_of_the_capture_go() -> None:
    x = torch.rand(4, 8)
    for body in ("return h.double().float()", "return h[x.sum(-1) > 4].sum()"):
        captured = capture_graph(copy.deepcopy(case_of(body).reference.model), (x,), {})
        assert not any("assert" in str(node.target) or node.op == "call_module" for node in captured.graph.nodes)


def test_a_chain_with_a_check_is_no_single_kernel() -> None:
    for body, declined in (("return h.relu()", False), ("torch._assert_async((x < 5).all()); return h.relu()", True)):
        model = case_of(body).reference.model
        problem = RecipeContext(model, (torch.rand(4, 8),), {}, CUDA)
        assert bool(look(BY_NAME["one_kernel"], problem).declined) is declined
