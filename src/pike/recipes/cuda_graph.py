"""The model's kernels recorded once as a CUDA graph and replayed: no launch costs, no compiler.

Knows torch.cuda.CUDAGraph: inputs are copied into the buffers of the recording, outputs out of them. Does not change
the kernels, but runs them from the captured graph where there is one, with what depends on weights only computed
before: that is where models copy constants from the host, which cannot be recorded. Follows the recipe of torch's
CUDA semantics notes: warm up on a side stream, then record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from pike.recipes.fold_constants import fold_constants
from pike.recipes.graph import call_leaves, example_of
from pike.recipes.recipe import Problem, Recipe, Stage

HOST = ("data-dependent", "data dependent", "unbacked", "GuardOnDataDependent")
"""Words in why a model could not be captured that say that its shapes or its path depend on values."""

LARGE_COPIES = 1 << 26
"""From this many bytes on, copying inputs and outputs costs more than launching kernels."""


class CudaGraph:
    """One recorded call of a function.

    Args:
        function: called a few times with the example inputs; must not need the host (no `.item()`, no copies to it).
        args: example positional arguments; tensors are on one GPU, or scalars on the CPU, whose values are recorded.
        kwargs: example keyword arguments.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function = function  # the kernels read its weights where they lie, whoever else forgets it
        leaves, self.structure = torch.utils._pytree.tree_flatten((args, kwargs))
        self.places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        for index in self.places:
            leaves[index] = leaves[index].detach().clone()
        self.inputs = [leaves[index] for index in self.places]
        self.device = self.inputs[0].device
        static_args, static_kwargs = torch.utils._pytree.tree_unflatten(leaves, self.structure)
        with torch.no_grad(), torch.cuda.device(self.device):
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    function(*static_args, **static_kwargs)
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.outputs = function(*static_args, **static_kwargs)
        self.flat = not kwargs and all(isinstance(value, torch.Tensor) for value in args)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replay on new inputs of the same structure; outputs are copies in memory of their own."""
        if self.flat:
            tensors = args
        else:
            leaves = torch.utils._pytree.tree_leaves((args, kwargs))
            tensors = tuple(leaves[index] for index in self.places)
        for static, fresh in zip(self.inputs, tensors, strict=True):
            if static is not fresh:
                static.copy_(fresh)
        self.graph.replay()
        if isinstance(self.outputs, torch.Tensor):
            return self.outputs.clone()
        return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, self.outputs)


def cuda_graph(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model's own kernels as one CUDA graph."""
    with contextlib.suppress(Exception):  # whatever cannot be captured is recorded as it is
        model = fold_constants(model, args, kwargs)
    return CudaGraph(model, args, kwargs)


def cannot_record(problem: Problem) -> str:
    """Why a problem's calls cannot be recorded on its device, empty where nothing speaks against it."""
    if not problem.facts.is_cuda:
        return "CUDA graphs need an NVIDIA GPU"
    if not any(isinstance(leaf, torch.Tensor) for leaf in call_leaves(problem.args, problem.kwargs)):
        return "there is no tensor among the inputs"
    graph, why = problem.captured
    if graph is None:
        return f"the host would have to wait for values ({why})" if any(word in why for word in HOST) else ""
    waiting = next((node for node in graph.graph.nodes if needs_host(node)), None)
    return "" if waiting is None else f"the host would have to wait for values: {waiting.target}"


def needs_host(node: torch.fx.Node) -> bool:
    """Whether a node's shape or the path after it depends on values, so that the host waits for the device."""
    if torch.Tag.data_dependent_output in getattr(node.target, "tags", ()):
        return True
    leaves = torch.utils._pytree.tree_leaves(example_of(node))
    sizes = [size for leaf in leaves if isinstance(leaf, torch.Tensor) for size in leaf.shape]
    return any(isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) for value in (*leaves, *sizes))


def copies_are_small(problem: Problem) -> float:
    """What to add to the expectation: large inputs and outputs are copied in and out at every call of a CUDA graph."""
    if not problem.facts.is_cuda:
        return 0.0
    outputs = [node for node in problem.graph.graph.nodes if node.op == "output"] if problem.graph else []
    values = [example_of(node) for output in outputs for node in output.all_input_nodes]
    tensors = [leaf for leaf in (*call_leaves(problem.args, problem.kwargs), *values) if isinstance(leaf, torch.Tensor)]
    moved = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    return -0.6 if moved > LARGE_COPIES else 0.0


RECIPE = Recipe(
    "cuda_graph",
    "all kernels replayed as one CUDA graph, outputs copied",
    Stage.LOWER,
    cuda_graph,
    cannot_record,
    prior_cuda=0.4,
    suits=copies_are_small,
    blamed_for=("capture", "capturing", "CUDA graph", "cudaError", "side stream"),
)
