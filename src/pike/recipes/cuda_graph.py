"""The model's kernels recorded once as a CUDA graph and replayed: no launch costs, no compiler.

Knows torch.cuda.CUDAGraph: inputs are copied into the buffers of the recording, outputs out of them. Does not change
the kernels. Follows the recipe of torch's CUDA semantics notes: warm up on a side stream, then record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pike.recipes.recipe import Problem, Recipe, Stage


class CudaGraph:
    """One recorded call of a function.

    Args:
        function: called a few times with the example inputs; must not need the host (no `.item()`, no copies to it).
        args: example positional arguments, tensors on one GPU.
        kwargs: example keyword arguments.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
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
            static.copy_(fresh)
        self.graph.replay()
        if isinstance(self.outputs, torch.Tensor):
            return self.outputs.clone()
        return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, self.outputs)


def cuda_graph(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model's own kernels as one CUDA graph."""
    return CudaGraph(model, args, kwargs)


def declines(problem: Problem) -> str:
    """Declines without a GPU, and without a tensor among the inputs."""
    if not problem.facts.is_cuda:
        return "CUDA graphs need an NVIDIA GPU"
    leaves = torch.utils._pytree.tree_leaves((problem.args, problem.kwargs))
    return "" if any(isinstance(leaf, torch.Tensor) for leaf in leaves) else "there is no tensor among the inputs"


RECIPE = Recipe(
    "cuda_graph",
    "all kernels replayed as one CUDA graph, outputs copied",
    Stage.LOWER,
    cuda_graph,
    declines,
    prior_cuda=0.4,
    blamed_for=("capture", "capturing", "CUDA graph", "cudaError", "side stream"),
)
