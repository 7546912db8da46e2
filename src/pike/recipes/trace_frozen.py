"""A TorchScript trace of the captured graph, frozen and optimised for inference: no compiler needed.

Knows torch.jit, which its makers no longer develop; kept because it is the only frozen graph on machines without a C++
compiler. The captured graph has no control flow, so tracing it loses nothing.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from pike.recipes.graph import FlatCall, capture_graph
from pike.recipes.recipe import Problem, Recipe, Stage, needs_graph


class TensorsOnly(torch.nn.Module):
    """A module as a function from the tensors of its arguments to the tensors of its outputs."""

    def __init__(self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.leaves, self.structure = torch.utils._pytree.tree_flatten((args, kwargs))
        self.places = [index for index, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The model's outputs, flat; arguments that are not tensors are those of the example call."""
        leaves = list(self.leaves)
        for index, tensor in zip(self.places, tensors, strict=True):
            leaves[index] = tensor
        args, kwargs = torch.utils._pytree.tree_unflatten(leaves, self.structure)
        outputs, self.outputs = torch.utils._pytree.tree_flatten(self.model(*args, **kwargs))
        return tuple(outputs)


def trace_frozen(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model as a frozen TorchScript graph for exactly these shapes."""
    flat = TensorsOnly(capture_graph(model, args, kwargs), args, kwargs).eval()
    tensors = [flat.leaves[index] for index in flat.places]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(flat, tensors, check_trace=False)  # type: ignore[no-untyped-call]
        frozen = torch.jit.optimize_for_inference(torch.jit.freeze(traced))
        for _ in range(3):
            frozen(*tensors)
    return FlatCall(frozen, args, kwargs, flat.outputs)


def declines(problem: Problem) -> str:
    """Declines on GPUs, where other ways to run a graph are faster, and without a graph."""
    return "frozen TorchScript helps on CPUs only" if problem.facts.is_cuda else needs_graph(problem)


RECIPE = Recipe(
    "trace_frozen",
    "the graph traced, frozen and optimised by TorchScript",
    Stage.LOWER,
    trace_frozen,
    declines,
    prior_cpu=0.45,
    blamed_for=("torch.jit", "TorchScript", "aten::", "prim::"),
)
