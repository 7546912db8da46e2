"""Images with the channels innermost, as convolution kernels like them best; restored at the
border.

Knows the graph. Only the order in memory changes, never a value. Does not know which kernels run.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.capture.constants import constant_value, varying_nodes
from pike.recipes.capture.graph import (
    add_tensor,
    call_before,
    calls,
    capture_graph,
    finish_edit,
    first_operation,
    nodes_calling,
    operand,
)
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage

IMAGE_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
"""Memory formats by the dimensions of an image."""


def channels_last(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Convolution weights and image inputs channels-last, image outputs contiguous as before."""
    graph = capture_graph(model, args, kwargs)
    varying = varying_nodes(graph)
    for conv in nodes_calling(graph, "conv2d", "conv3d"):
        weight = constant_value(graph, operand(conv, 1), varying)
        if weight is not None:
            packed = weight.contiguous(memory_format=IMAGE_FORMATS[weight.dim()])
            conv.update_arg(1, add_tensor(graph, "channels_last_weight", packed, conv))
    first = first_operation(graph)
    for node in list(graph.graph.nodes):
        if node.op == "placeholder" and is_image(node) and reaches_convolution(node):
            order = IMAGE_FORMATS[node.meta["val"].dim()]
            image = call_before(first, torch.ops.aten.contiguous.default, node, memory_format=order)
            image.meta.update(node.meta)
            node.replace_all_uses_with(image, delete_user_cb=lambda user, image=image: user is not image)
    finish_edit(graph)
    return graph


def is_image(node: torch.fx.Node) -> bool:
    """Whether a node's value has four dimensions, or five, and floating-point elements."""
    example = node.meta.get("val")
    return isinstance(example, torch.Tensor) and example.dim() in IMAGE_FORMATS and example.is_floating_point()


def reaches_convolution(node: torch.fx.Node) -> bool:
    """Whether a convolution reads a value, directly or through operations on images."""
    seen, found = {node}, [node]
    while found:
        for user in found.pop().users:
            if calls(user, "conv2d", "conv3d"):
                return True
            if is_image(user) and user not in seen:
                seen.add(user)
                found.append(user)
    return False


def declines(problem: RecipeContext) -> str:
    """Declines without a convolution of images or volumes."""
    if problem.no_graph or problem.uses("conv2d", "conv3d"):
        return problem.no_graph
    return "there is no convolution of images or volumes"


def volumes_on_cpu(problem: RecipeContext) -> float:
    """What to add to the expectation: on a CPU volumes were slower that way (docs/experiments)."""
    return -0.2 if not problem.facts.is_cuda and problem.uses("conv3d") else 0.0


RECIPE = Recipe(
    "channels_last",
    "images and convolution weights channels-last, outputs contiguous",
    RecipeStage.LAYOUT,
    channels_last,
    declines,
    prior_cpu=0.05,
    prior_cuda=0.02,  # inductor lays convolutional networks out that way by itself
    suits=volumes_on_cpu,
    blamed_for=("channels_last", "memory format", "memory_format", "view size is not compatible"),
)
