"""Recipes look at models that may be anything: nothing that goes wrong there escapes, and threads do not collide."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from recipe_harness import CPU, CUDA, HALF, Case, small_task

from pike.recipes import RECIPES
from pike.recipes.capture.exclusive import exclusively
from pike.recipes.capture.graph import capture_graph
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import look
from pike.recipes.lowering.trace_frozen import trace_frozen
from pike.recipes.registry import BY_NAME
from pike.recipes.search.explored import explore


def raising(*_given: Any) -> Any:
    raise ValueError("sizes of graphs\nare not known")


@pytest.fixture(scope="module")
def problem() -> RecipeContext:
    return Case.of(small_task("attention")).problem(CPU)


@pytest.mark.parametrize("part", ["declines", "suits", "adapt"])
def test_a_recipe_that_raises_has_declined(part: str, problem: RecipeContext) -> None:
    compile = BY_NAME["compile"]
    assert not look(compile, problem).declined
    found = look(replace(compile, **{part: raising}), problem)
    assert found.declined == "recipe compile cannot look at this model: ValueError: sizes of graphs"
    assert found.keep is None


def test_a_recipe_that_takes_too_long_has_declined(problem: RecipeContext) -> None:
    slow = replace(BY_NAME["compile"], declines=lambda _: time.sleep(5.0) or "")
    began = time.monotonic()
    found = look(slow, problem.limited(0.5))
    assert found.declined == "recipe compile cannot look at this model: TimeoutError: it took longer than 0.5 s"
    assert time.monotonic() - began < 4.0


class Endless(torch.nn.Module):
    """Never ends while it is captured, and is quick otherwise."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while torch.compiler.is_exporting():
            time.sleep(0.01)
        return x + 1


def test_a_capture_that_takes_too_long_says_so_and_what_needs_no_graph_applies() -> None:
    endless = RecipeContext(Endless().eval(), (torch.randn(2),), {}, CUDA, HALF).limited(0.2)
    declined = explore(endless).declined
    assert declined["half"] == "the model cannot be captured as a graph: TimeoutError: it took longer than 0.2 s"
    assert not declined["cuda_graph"]


def test_a_capture_and_a_cost_that_raise_leave_other_recipes_alone(problem: RecipeContext) -> None:
    spoiled = replace(problem, captures=(raising,), savings=(raising,), notes={})
    assert explore(spoiled).declined == explore(problem).declined


class Routed(torch.nn.Module):
    """Reads as many rows as the values say, as graph networks do: their number is not known while it is captured."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.linear(x)[(x[:, 0] > 0).nonzero()[:, 0]]).sum()


@pytest.mark.parametrize("facts", [CPU, CUDA])
def test_sizes_that_depend_on_values_are_no_crash(facts: Any) -> None:
    problem = RecipeContext(Routed().eval(), (torch.randn(6, 8),), {}, facts, HALF)
    assert problem.graph is not None, problem.no_graph
    declined = explore(problem).declined
    assert not declined["fuse_linears"] or "cannot look" not in declined["fuse_linears"]
    assert set(declined) == {recipe.name for recipe in RECIPES}
    assert not declined["half" if facts.is_cuda else "compile"]


def test_a_graph_that_gives_other_answers_than_the_model_is_none() -> None:
    """The encoder gives zeros for padding, but not while it is captured."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    encoder = torch.nn.TransformerEncoder(layer, 1).eval()
    assert RecipeContext(encoder, (torch.randn(2, 5, 16),), {}, CPU, HALF).graph
    padded = RecipeContext(encoder, (torch.randn(2, 5, 16),), {"src_key_padding_mask": padding}, CPU, HALF)
    assert padded.no_graph == "the model cannot be captured as a graph: the graph gives other answers than the model"
    assert not explore(padded).declined["compile"]
    found = look(BY_NAME["cuda_graph"], replace(padded, facts=CUDA))
    assert (found.declined, found.keep) == ("", ()), "a candidate records the model itself"


class Experts(torch.nn.Module):
    """A mixture of experts as transformers writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(8, 3)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        mask = torch.nn.functional.one_hot(chosen, 3).permute(2, 1, 0)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            place, token = torch.where(mask[number])
            out.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        return out


@pytest.mark.parametrize("facts", [CPU, CUDA])
def test_no_recipe_stumbles_over_experts_whose_sizes_depend_on_values(facts: Any) -> None:
    declined = explore(RecipeContext(Experts().eval(), (torch.randn(6, 8),), {}, facts, HALF)).declined
    assert not [reason for reason in declined.values() if "cannot look" in reason]
    assert declined["inductor"] == "sizes depend on values"
    assert facts.is_cuda or "autocast: RuntimeError" in declined["autocast_bf16"] or "no bfloat16" in declined["bf16"]
    assert not declined["compile"]


class Mixed(torch.nn.Module):
    """Returns tensors, None, a number and words, in a dict of lists."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.linear(x)
        return {"first": y, "none": None, "all": [y, torch.relu(y), 3], "words": "kept"}


def test_a_lowered_graph_returns_what_is_no_tensor_too() -> None:
    model, x = Mixed().eval(), torch.randn(2, 4)
    fast = trace_frozen(model, (x,), {})
    other = torch.randn(2, 4)
    with torch.no_grad():
        found, expected = fast(other), model(other)
    assert (found["none"], found["all"][2], found["words"], list(found)) == (None, 3, "kept", list(expected))
    for value, wanted in ((found["first"], expected["first"]), (found["all"][1], expected["all"][1])):
        torch.testing.assert_close(value, wanted)


class Slow(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.1)
        return torch.relu(x)


def test_threads_capture_one_after_the_other() -> None:
    """Two exports at once fail both, because torch keeps the state of an export for the whole process."""
    graphs = []

    def capture() -> None:
        with exclusively():
            graphs.append(capture_graph(Slow().eval(), (torch.randn(2, 3),), {}))

    threads = [threading.Thread(target=capture) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(graphs) == 2


class Regimes(torch.nn.Module):
    """Asks the host, or `torch.cond`, for one number of a tensor, which is another one only for large inputs."""

    def __init__(self, asks: str) -> None:
        super().__init__()
        self.linear, self.asks = torch.nn.Linear(8, 8), asks
        self.register_buffer("scale", torch.tensor(3))

    def forward(self, x: torch.Tensor) -> Any:
        y, large = self.linear(x), x.abs().amax() > 1000
        if self.asks == "item":
            return y * (1 + large.long().item())
        if self.asks == "size":
            return y * y[large.expand(len(y))].shape[0]
        if self.asks == "buffer":
            return y * self.scale.item()
        return torch.cond(large, lambda z: z * 2, lambda z: z * 1, (y,))


@pytest.mark.parametrize("asks", ["item", "size", "branch"])
def test_what_keeps_the_numbers_of_one_call_declines_where_the_host_reads_them(asks: str) -> None:
    model, x = Regimes(asks).eval(), torch.randn(4, 8)
    problem = RecipeContext(model, (x,), {}, CPU)
    assert problem.graph is not None, problem.no_graph
    assert "keep a value that is read from a tensor" in look(BY_NAME["trace_frozen"], problem).declined
    assert "depend on values" in look(BY_NAME["inductor"], problem).declined
    on_gpu = replace(problem, facts=CUDA)
    for name in ("cuda_graph", "compiled_graph"):
        assert "wait for values" in look(BY_NAME[name], on_gpu).declined
    with torch.no_grad(), pytest.raises(RuntimeError, match="read from a tensor"):
        trace_frozen(model, (x,), {})
    with torch.no_grad():
        assert torch.allclose(problem.graph(x * 5000), model(x * 5000)), (
            "a graph that nothing lowers reads it each time"
        )


def test_a_trace_may_keep_what_is_read_from_weights_and_sizes_that_no_number_depends_on() -> None:
    x = torch.randn(6, 8)
    for model in (Regimes("buffer").eval(), Routed().eval()):
        assert not look(BY_NAME["trace_frozen"], RecipeContext(model, (x,), {}, CPU)).declined
        with torch.no_grad():
            traced = trace_frozen(model, (x,), {})
            for given in (x, -x, x + 1):
                assert torch.allclose(traced(given), model(given), atol=1e-5)
