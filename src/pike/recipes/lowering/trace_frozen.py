"""A TorchScript trace of the captured graph, frozen and optimised for inference: no compiler
needed.

Knows torch.jit, which its makers no longer develop; kept because it is the only frozen graph on
machines without a C++ compiler. A trace keeps numbers that the host read from tensors and drops
checks, so graphs with such reads or checks are not traced.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from pike.recipes.capture.constants import varying_nodes
from pike.recipes.capture.graph import (
    FlatCall,
    capture_graph,
    done_for_effect,
    example_of,
    gives_host_value,
    nested_nodes,
    returned,
    tensors_only,
)
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage


def trace_frozen(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model as a frozen TorchScript graph for exactly these shapes.

    Raises:
        RuntimeError: a trace would not hold for other values of the inputs.
    """
    captured = capture_graph(model, args, kwargs)
    if why := not_traceable(captured):
        raise RuntimeError(why)
    flat, tensors = tensors_only(captured, args, kwargs)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(flat.eval(), tensors, check_trace=False)  # type: ignore[no-untyped-call]
        frozen = torch.jit.optimize_for_inference(torch.jit.freeze(traced))
        for _ in range(3):
            frozen(*tensors)
        constant = given_again(frozen, tensors)
        constant -= given_again(flat, tensors) if constant else set()
    return FlatCall(CopiedOutputs(frozen, constant) if constant else frozen, args, kwargs, captured)


class CopiedOutputs:
    """Calls a function that returns constants of its own, and copies those.

    Args:
        function: returns a tuple of tensors.
        places: where in it those constants are.
    """

    def __init__(self, function: Callable[..., Any], places: set[int]) -> None:
        self.function, self.places = function, places

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """The function's outputs, of which a caller may change each."""
        outputs = self.function(*tensors)
        return [output.clone() if place in self.places else output for place, output in enumerate(outputs)]


def given_again(function: Callable[..., Any], tensors: list[Any]) -> set[int]:
    """The places of outputs that lie in the same memory at two calls."""
    first, second = function(*tensors), function(*tensors)  # both alive, so that no memory is used twice
    where, again = ([output.untyped_storage().data_ptr() for output in outputs] for outputs in (first, second))
    return {place for place, memory in enumerate(where) if memory == again[place]}


def declines(problem: RecipeContext) -> str:
    """Declines on GPUs, where other ways to run a graph are faster, and without a graph of tensors."""
    if problem.facts.is_cuda:
        return "frozen TorchScript helps on CPUs only"
    no_tensors = problem.lacks(returns_tensors, "outputs that depend on values are no tensors")
    return no_tensors or (not_traceable(problem.graph) if problem.graph else "")


def not_traceable(graph: torch.fx.GraphModule) -> str:
    """Why a trace would not hold for other values of the inputs, empty where it does.

    What depends on weights only may be kept: it is frozen with them. TorchScript drops what is done
    for its effect.
    """
    if effects := done_for_effect(graph):
        return f"a trace would drop a check or an effect: {effects[0].target}"
    varying = varying_nodes(graph)
    fixed = {node for node in graph.graph.nodes if node not in varying}
    reads = [node for node in nested_nodes(graph) if gives_host_value(node) and node not in fixed]
    return f"a trace would keep a value that is read from a tensor: {reads[0].target}" if reads else ""


def returns_tensors(graph: torch.fx.GraphModule) -> bool:
    """Whether all outputs that the graph computes are tensors, and there are some."""
    outputs = [example_of(leaf) for leaf in returned(graph) if isinstance(leaf, torch.fx.Node)]
    return bool(outputs) and all(isinstance(output, torch.Tensor) for output in outputs)


RECIPE = Recipe(
    "trace_frozen",
    "the graph traced, frozen and optimised by TorchScript",
    RecipeStage.LOWER,
    trace_frozen,
    declines,
    prior_cpu=0.45,
    blamed_for=("torch.jit", "TorchScript", "aten::", "prim::"),
)
