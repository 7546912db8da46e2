"""The model's kernels recorded once as a CUDA graph and replayed: no launch costs, no compiler.

Knows torch.cuda.CUDAGraph: inputs are copied into the buffers of the recording, outputs out of
them. Does not change the kernels. Where there is a captured graph it is recorded instead of the
model, with operators on weights only computed before. There models copy constants from the host,
which cannot be recorded. Follows torch's notes on CUDA semantics: warm up on a side stream, then
record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from pike.recipes.capture.graph import CHANGES_INPUTS, call_leaves, example_of, has_size, needs_host, nested_nodes
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.layout.fold_constants import fold_constants

HOST = ("data-dependent", "data dependent", "unbacked", "DataDependent")
"""Words in a capture's failure which say that shapes or the path depend on values."""

LARGE_COPIES = 1 << 26
"""Fewer bytes of inputs and outputs are copied in less time than the launches take."""
BYTES_OF_A_LAUNCH = 5 << 20
"""What an H100 copies while the host launches a kernel: 4 us at 2.6 TB/s, read and written."""


class CudaGraph:
    """One recorded call of a function.

    Args:
        function: called a few times with the example inputs; must not need the host (no `.item()`,
            no copies to it).
        args: example positional arguments; tensors are on one GPU, or scalars on the CPU, whose
            values are recorded: for others the function is called.
        kwargs: example keyword arguments.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function = function  # keeps alive the weights that the kernels read
        leaves, self.structure = torch.utils._pytree.tree_flatten((args, kwargs))
        self.slots = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        for index in self.slots:
            leaves[index] = leaves[index].detach().clone()
        self.inputs = [leaves[index] for index in self.slots]
        self.device = max(self.inputs, key=torch.Tensor.dim).device
        self.recorded = [index for index, tensor in enumerate(self.inputs) if tensor.device != self.device]
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
            tensors = tuple(leaves[index] for index in self.slots)
        if not all(torch.equal(self.inputs[index], tensors[index]) for index in self.recorded):
            return self.function(*args, **kwargs)
        for static, fresh in zip(self.inputs, tensors, strict=True):
            if static is not fresh:
                static.copy_(fresh)
        self.graph.replay()
        if isinstance(self.outputs, torch.Tensor):
            return self.outputs.clone()
        return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, self.outputs)


def cuda_graph(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], keep: tuple[str, ...] = ("graph",)
) -> Any:
    """The model's own kernels as one CUDA graph.

    Args:
        model: the model.
        args: positional arguments of one call.
        kwargs: keyword arguments of one call.
        keep: empty for a model whose captured graph does not stand for it.
    """
    with contextlib.suppress(Exception):  # a model that cannot be captured is recorded as it is
        model = fold_constants(model, args, kwargs) if keep else model
    return CudaGraph(model, args, kwargs)


def has_graph(problem: RecipeContext) -> tuple[str, ...]:
    """What `keep` says of a problem: whether a candidate may capture the model."""
    return ("graph",) if problem.graph else ()


def cannot_record(problem: RecipeContext) -> str:
    """Why calls cannot be recorded on the device, empty where nothing speaks against it."""
    if not problem.facts.is_cuda:
        return "CUDA graphs need an NVIDIA GPU"
    if not any(isinstance(leaf, torch.Tensor) for leaf in call_leaves(problem.args, problem.kwargs)):
        return "there is no tensor among the inputs"
    graph, why = problem.captured
    if CHANGES_INPUTS in why:
        return f"{CHANGES_INPUTS}: a recording would change its own copies of them"
    if graph is None:
        return f"the host would have to wait for values ({why})" if any(word in why for word in HOST) else ""
    waiting = next((node for node in nested_nodes(graph) if needs_host(node)), None)
    return "" if waiting is None else f"the host would have to wait for values: {waiting.target}"


def copies_are_small(problem: RecipeContext) -> float:
    """What to add to the expectation: a CUDA graph copies inputs and outputs at every call."""
    if not problem.facts.is_cuda:
        return 0.0
    outputs = [node for node in problem.nodes if node.op == "output"]
    values = [example_of(node) for output in outputs for node in output.all_input_nodes]
    tensors = [leaf for leaf in (*call_leaves(problem.args, problem.kwargs), *values) if has_size(leaf)]
    moved = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    launched = BYTES_OF_A_LAUNCH * problem.operators
    return -0.6 if moved > max(LARGE_COPIES, launched) else 0.0


RECIPE = Recipe(
    "cuda_graph",
    "all kernels replayed as one CUDA graph, outputs copied",
    RecipeStage.LOWER,
    cuda_graph,
    cannot_record,
    records=True,
    prior_cuda=0.4,
    suits=copies_are_small,
    blamed_for=("capture", "capturing", "CUDA graph", "cudaError", "side stream"),
    adapt=has_graph,
)
