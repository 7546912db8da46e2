"""Convolutions of few input channels to large maps, by a kernel that writes each map once.

Such a convolution does little arithmetic and waits for memory. PyTorch writes its result, reads it
again for the ReLU and writes it once more. Knows the graph: constant filters, no groups, few
products for each output, a ReLU that follows. A candidate with it stays in float32, because 16 bits
would take one more pass over the map. Does not know the kernel (`convolution_kernel`).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from pike.recipes.capture.graph import (
    call_before,
    calls,
    capture_graph,
    example_of,
    finish_edit,
    nodes_calling,
    operand,
    sole_user,
    tensor_at,
)
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.kernels.convolution_kernel import ConvTerms, convolve
from pike.recipes.kernels.operator import define_operator
from pike.recipes.precision.sixteen_bits import NAMES_OF_16_BITS
from pike.recipes.precision.tensor_cores import no_kernel

MOST_TAPS = 64
"""Products for one output: with more, arithmetic takes longer than writing."""
LEAST_NUMBERS = 1 << 22
"""In smaller maps, of 16 MiB, there is little to gain: a guess."""
ARITHMETIC = "bf16x6"
"""Keeps float32's bits: writing takes longer than the products, and fewer bits missed the error
budget."""
SAVED_SHARE = 0.5
"""The share of written bytes that the kernel saves: a guess."""


def narrow_convs(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Replace each such convolution, with the ReLU behind it, by one kernel."""
    graph = capture_graph(model, args, kwargs)
    operator = convolution_operator()
    for conv in narrow_convolutions(graph):
        end = relu_behind(conv) or conv
        stride, padding = conv_pair(operand(conv, 3), 1), conv_pair(operand(conv, 4), 0)
        inputs = [operand(conv, index) for index in range(3)]
        terms = (*inputs, stride, padding, end is not conv)
        result = call_before(end, operator, *terms)
        end.replace_all_uses_with(result)
    finish_edit(graph)
    return graph


def narrow_convolutions(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The convolutions that the kernel can take and that write enough."""
    return [conv for conv in nodes_calling(graph, "conv2d") if is_narrow(graph, conv)]


def is_narrow(graph: torch.fx.GraphModule, conv: torch.fx.Node) -> bool:
    """Whether a convolution has constant filters, no groups, few taps and a large float32 map."""
    weight, example = tensor_at(graph, operand(conv, 1)), example_of(conv)
    if weight is None or example.dtype != torch.float32 or example.dim() != 4:
        return False
    alone = conv_pair(operand(conv, 5), 1) == [1, 1] and operand(conv, 6) in (None, 1)
    by_numbers = not isinstance(operand(conv, 4), str)
    return alone and by_numbers and weight[0].numel() <= MOST_TAPS and example.numel() >= LEAST_NUMBERS


def conv_pair(given: Any, otherwise: int) -> list[int]:
    """Two numbers of a convolution, down and across."""
    values = [otherwise] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    return [int(values[0]), int(values[-1])]


def relu_behind(conv: torch.fx.Node) -> torch.fx.Node | None:
    """The ReLU that is the only reader of a convolution."""
    user = sole_user(conv)
    return user if calls(user, "relu") else None


def run_convolution(
    image: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    rectified: bool,
) -> torch.Tensor:
    """The convolution by the kernel; by PyTorch where there is no GPU.

    Args:
        image: (batch, channels, height, width), float32, in any layout.
        weight: (filters, channels, kernel height, kernel width).
        bias: (filters,), or None.
        stride: down and across.
        padding: with zeros, down and across.
        rectified: whether a ReLU follows.

    Returns:
        (batch, filters, out height, out width), contiguous.
    """
    output = empty_convolution(image, weight, bias, stride, padding, rectified)
    if not image.is_cuda:
        plain = functional.conv2d(image, weight, bias, stride, padding)
        return output.copy_(torch.relu(plain) if rectified else plain)
    terms = ConvTerms((stride[0], stride[1]), (padding[0], padding[1]), rectified, ARITHMETIC)
    with torch.cuda.device(image.device):
        convolve(image, weight.contiguous(), bias, output, terms)
    return output


def empty_convolution(
    image: torch.Tensor,
    weight: torch.Tensor,
    _bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    _rectified: bool,
) -> torch.Tensor:
    """An empty result of `run_convolution`."""
    sizes = [
        (image.shape[axis + 2] + 2 * padding[axis] - weight.shape[axis + 2]) // stride[axis] + 1 for axis in range(2)
    ]
    return image.new_empty(image.shape[0], weight.shape[0], *sizes)


def convolution_operator() -> Any:
    """`run_convolution` as an operator."""
    tensors, terms = "Tensor image, Tensor weight, Tensor? bias", "int[] stride, int[] padding, bool rectified"
    return define_operator(
        "pike_convolution::narrow", f"({tensors}, {terms}) -> Tensor", run_convolution, empty_convolution
    )


def declines(problem: RecipeContext) -> str:
    """Declines where the kernel does not run, and without such a convolution."""
    otherwise = "no convolution of few channels writes a large map"
    return no_kernel(problem.facts) or problem.lacks(narrow_convolutions, otherwise)


def share_of_maps(problem: RecipeContext) -> float:
    """The expected log speedup, by the share of these maps in all that the model writes."""
    assert problem.graph is not None
    ours = {end for conv in narrow_convolutions(problem.graph) for end in (conv, relu_behind(conv))}
    numbers = {node: example_of(node).numel() for node in problem.nodes if _writes(node)}
    share = sum(count for node, count in numbers.items() if node in ours) / max(sum(numbers.values()), 1)
    return -math.log(1.0 - SAVED_SHARE * share)


def _writes(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and isinstance(example_of(node), torch.Tensor)


RECIPE = Recipe(
    "narrow_convs",
    "convolutions of few channels to large maps as one kernel with what follows, in float32",
    RecipeStage.REWRITE,
    narrow_convs,
    declines,
    excludes=NAMES_OF_16_BITS,
    suits=share_of_maps,
    blamed_for=("pike_convolution", "conv2d_fwd", "OutOfResources"),
)
