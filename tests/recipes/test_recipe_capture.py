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
from pike.recipes.lowering.cuda_graph import cannot_record
from pike.recipes.registry import BY_NAME

INPUT = (torch.rand(4, 8),)
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


APART = {
    "a copy": "return h, h.clone()",
    "a view of a copy": "return h, h.clone().view(-1)",
    "two copies": "return h.clone(), h.clone()",
    "a copy of a view": "return h, h.view(-1).clone()",
    "a copy through an operator that may return its argument": "return h, torch.einsum('ij->ji', h.clone())",
    "parts of a copy": "return h, *h.clone().split(2)",
    "a copy of a view of an input": "return h, x.view(-1).clone()",
    "a copy of a weight": "return h, self.linear.weight.detach().clone()",
    "a function of weights": "return h, (self.table * 2).view(2, 4)",
    "a view of a function of weights": "return h, (self.table * 2 + 1).expand_as(x)",
    "a constant": "return h, torch.tensor([1.0, 2.0]), torch.arange(4) * 2",
}
TOGETHER = {
    "a view": "return h, h.view(-1), h.t()",
    "an input": "return h, x, x.view(-1)",
    "a buffer": "return h, self.table, self.table.view(2, 4)",
    "after a write in place": "g = h.view(-1); g.add_(1); return h, g",
}


def shared(model: Any, call: Any) -> list[list[str]]:
    """What lies in the same memory: weights, the input, and the outputs of two calls."""
    x = torch.rand(4, 8)
    named = {"x": x, **dict(model.named_parameters()), **dict(model.named_buffers())}
    with torch.no_grad():
        for turn in "ab":
            named.update({f"{turn}{place}": output for place, output in enumerate(call(x))})
    groups: dict[int, list[str]] = {}
    for name, tensor in named.items():
        groups.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
    return sorted(names for names in groups.values() if len(names) > 1)


@pytest.mark.parametrize("recipe", ["capture", "fold_constants", "trace_frozen"])
@pytest.mark.parametrize("outputs", [*APART, *TOGETHER])
def test_outputs_share_memory_where_they_did(outputs: str, recipe: str) -> None:
    """A caller who writes into an output changes what the original's caller would change, and nothing else."""
    model = case_of({**APART, **TOGETHER}[outputs]).reference.model
    prepare = capture_graph if recipe == "capture" else BY_NAME[recipe].transform
    x = torch.rand(4, 8)
    with torch.no_grad():
        fast = prepare(model, (x,), {})
        for got, want in zip(fast(x), model(x), strict=True):
            assert torch.allclose(got, want, atol=1e-6)
    assert shared(model, fast) == shared(model, model)


def test_copies_that_nobody_outside_sees_go() -> None:
    captured = capture_graph(
        case_of("return h.clone() + 1, (h.clone() * 2).view(-1), h.clone()").reference.model, INPUT, {}
    )
    assert not any("clone" in str(node.target) for node in captured.graph.nodes)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return h, self.table * 2", "at each call"),
        ("return h, h.to(torch.float32, copy=True)", "a copy made by a cast"),
        ("return h, x.double().float()", "a copy made by a cast"),
        ("return h + self.table * 2, h.float(), h.double()", ""),
    ],
)
def test_weights_are_not_frozen_where_outputs_would_share_memory(body: str, reason: str) -> None:
    declined = look(BY_NAME["freeze"], case_of(body).problem(CPU)).declined
    assert reason in declined and bool(reason) is bool(declined)


class Notes(torch.nn.Module):
    """Writes something where its caller sees it."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.linear, self.where = torch.nn.Linear(8, 8), where

    def forward(self, given: Any) -> Any:
        if self.where == "a key":
            given["h"] = self.linear(given["x"])
        elif self.where == "another value":
            given["x"] = self.linear(given["x"])
        elif self.where == "values":
            given["x"].view(-1)[0] = 7
        return given["x"] * 2


@pytest.mark.parametrize("where", ["a key", "another value", "values"])
def test_a_model_that_changes_what_its_caller_gave_has_no_graph_and_is_not_recorded(where: str) -> None:
    x = torch.rand(4, 8)
    problem = RecipeContext(Notes(where).eval(), ({"x": x},), {}, CUDA)
    assert "changes its inputs" in problem.no_graph
    for name in ("cuda_graph", "compiled_graph", "fold_constants"):
        assert look(BY_NAME[name], problem).declined
    assert "changes its inputs" in cannot_record(problem)
    unchanged = Notes("nowhere").eval()
    assert RecipeContext(unchanged, ({"x": x},), {}, CUDA).graph
    assert not unchanged._forward_hooks and not unchanged._forward_pre_hooks
