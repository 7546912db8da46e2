"""A model that is a chain of linear layers with few rows, run as one kernel.

Such models spend their time on launching kernels and on copying inputs and outputs of a recording.
One launch that reads the inputs where they lie needs neither. Knows which graphs are such chains:
inputs side by side, then linear layers, each with a function of its outputs. Does not know the
kernel (`layers_kernel`). With 16 bits, weights are read in 16 bits and everything else stays in
float32.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import torch

from pike.recipes.capture.constants import constant_value, varying_nodes
from pike.recipes.capture.graph import FlatCall, calls, capture_graph, done_for_effect, example_of, operand, returned
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.kernels.layers_kernel import LAYER_TYPES, Layer, LayersKernel

LAYER_FUNCTIONS = {"relu": "relu", "tanh": "tanh_", "sigmoid": "sigmoid", "silu": "silu", "gelu": "gelu"}
"""Operators that the kernel can apply to a layer's outputs, and its names for them."""

KERNEL_ROWS = 8
"""With more rows a matrix product is the better form."""

KERNEL_LAYERS = 12
"""With more layers the waits between them cost more than launches."""


class Chain(NamedTuple):
    """A chain: its inputs side by side, their rows, its layers, and the node of its output."""

    inputs: list[torch.fx.Node]
    rows: int
    layers: list[Layer]
    output: torch.fx.Node


def one_kernel(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The whole model as a single CUDA kernel, launched without PyTorch.

    Raises:
        RuntimeError: the model is not a chain of layers, or the kernel cannot be built here.
    """
    graph = capture_graph(model, args, kwargs)
    chain = chain_of(graph)
    if chain is None:
        raise RuntimeError("the model is not a chain of linear layers with few rows")
    leaves: list[Any] = torch.utils._pytree.tree_leaves((args, kwargs))
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    tensors = [leaves[inputs.index(node)] for node in chain.inputs]
    example = example_of(chain.output)
    kernel = LayersKernel(tensors, chain.rows, chain.layers, example.shape, example.dtype)
    order = [node for node, leaf in zip(inputs, leaves, strict=True) if isinstance(leaf, torch.Tensor)]
    wanted = [order.index(node) for node in chain.inputs]
    straight = wanted == list(range(len(order)))
    call = kernel if straight else lambda *given: kernel(*(given[place] for place in wanted))
    return FlatCall(call, args, kwargs, graph)


def chain_of(graph: torch.fx.GraphModule) -> Chain | None:
    """The chain that a whole graph is, None where it has anything else."""
    outputs = [leaf for leaf in returned(graph) if isinstance(leaf, torch.fx.Node)]
    example = example_of(outputs[0]) if len(outputs) == 1 else None
    if not isinstance(example, torch.Tensor) or not example.is_contiguous() or done_for_effect(graph):
        return None
    varying = varying_nodes(graph)
    layers: list[Layer] = []
    node, function = outputs[0], "none"
    while not is_input(node):
        if calls(node, *LAYER_FUNCTIONS) and function == "none" and not node.kwargs and len(node.args) == 1:
            function = LAYER_FUNCTIONS[node.target.overloadpacket.__name__]  # type: ignore[union-attr]
        elif calls(node, "linear"):
            weight, bias = (constant_value(graph, operand(node, index), varying) for index in (1, 2))
            if not isinstance(weight, torch.Tensor) or (bias is None and operand(node, 2) is not None):
                return None
            layers.insert(0, Layer(weight, bias, function))
            function = "none"
        elif not calls(node, "contiguous") and not is_cast(node) and not is_same_memory(node):
            return None
        node = operand(node, 0)
        if node not in varying:
            return None
    inputs = [before_casts(one) for one in (operand(node, 0) if calls(node, "cat") else [node])]
    if not all(isinstance(example_of(one), torch.Tensor) for one in inputs):
        return None
    rows = rows_of(inputs, layers)
    known = {example.dtype, *(layer.weight.dtype for layer in layers), *(example_of(one).dtype for one in inputs)}
    if (
        function != "none"
        or not 0 < rows <= KERNEL_ROWS
        or len(layers) > KERNEL_LAYERS
        or not known <= set(LAYER_TYPES)
    ):
        return None
    return Chain(inputs, rows, layers, outputs[0])


def is_input(node: torch.fx.Node) -> bool:
    """Whether a node is an input, or inputs side by side."""
    if not calls(node, "cat"):
        return node.op == "placeholder"
    parts = [before_casts(part) for part in operand(node, 0)]
    plain = all(part.op == "placeholder" and example_of(part).dim() == 2 for part in parts)
    return plain and operand(node, 1) in (1, -1)


def before_casts(node: torch.fx.Node) -> torch.fx.Node:
    """The node without the casts around it."""
    while is_cast(node):
        node = operand(node, 0)
    return node


def is_cast(node: torch.fx.Node) -> bool:
    """Whether a node only changes the bits of numbers; the kernel has float32 between layers."""
    if not calls(node, "to", "_to_copy"):
        return False
    return bool(example_of(node).is_floating_point() and example_of(operand(node, 0)).is_floating_point())


def is_same_memory(node: torch.fx.Node) -> bool:
    """Whether a node gives contiguous values another shape."""
    return (
        calls(node, "reshape", "flatten", "squeeze", "unsqueeze", "view")
        and example_of(operand(node, 0)).is_contiguous()
    )


def rows_of(inputs: list[torch.fx.Node], layers: list[Layer]) -> int:
    """The number of rows of every layer, 0 where layers and inputs do not fit row by row."""
    if not layers:
        return 0
    values = sum(example_of(one).numel() for one in inputs)
    rows = values // layers[0].weight.shape[1]
    fits = rows * layers[0].weight.shape[1] == values and all(example_of(one).is_contiguous() for one in inputs)
    side_by_side = len(inputs) == 1 or all(example_of(one).shape[0] == rows for one in inputs)
    follows = all(one.weight.shape[0] == other.weight.shape[1] for one, other in itertools.pairwise(layers))
    return rows if fits and side_by_side and follows else 0


def declines(problem: RecipeContext) -> str:
    """Declines on CPUs and every model but chains of linear layers with few rows."""
    if not problem.facts.is_cuda:
        return "this kernel is for GPUs"
    return problem.lacks(chain_of, f"the model is not a chain of linear layers with at most {KERNEL_ROWS} rows")


RECIPE = Recipe(
    "one_kernel",
    "a chain of linear layers as a single kernel that reads its inputs where they lie",
    RecipeStage.LOWER,
    one_kernel,
    declines,
    prior_cuda=1.4,
    blamed_for=("NVRTC", "cuLaunchKernel", "the kernel cannot be loaded"),
)
