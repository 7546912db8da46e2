"""Images with the channels innermost, the order in which convolution kernels are fastest; restored at the border.

Knows the graph. Only the order in memory changes, never a value. Does not know which kernels run.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.graph import call_before, capture_graph, finish_edit, nodes_calling, operand
from pike.recipes.recipe import Problem, Recipe, Stage, needs_graph, uses


def channels_last(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Convolution weights and image inputs channels-last, image outputs contiguous as before."""
    graph = capture_graph(model, args, kwargs)
    for conv in nodes_calling(graph, "conv2d"):
        home, _, name = str(operand(conv, 1).target).rpartition(".")
        weight: torch.Tensor = getattr(graph.get_submodule(home), name)
        weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    nodes = list(graph.graph.nodes)
    first = next(node for node in nodes if node.op != "placeholder")
    for node in nodes:
        if node.op == "placeholder" and is_image(node):
            image = call_before(first, torch.ops.aten.contiguous.default, node, memory_format=torch.channels_last)
            image.meta.update(node.meta)
            node.replace_all_uses_with(image, delete_user_cb=lambda user, image=image: user is not image)
    output = nodes[-1]
    output.args = torch.fx.map_arg(
        output.args,
        lambda node: call_before(output, torch.ops.aten.contiguous.default, node) if is_image(node) else node,
    )
    finish_edit(graph)
    return graph


def is_image(node: torch.fx.Node) -> bool:
    """Whether a node's value has four dimensions and floating-point elements."""
    example = node.meta.get("val")
    return isinstance(example, torch.Tensor) and example.dim() == 4 and example.is_floating_point()


def declines(problem: Problem) -> str:
    """Declines without a two-dimensional convolution whose weight is a parameter."""
    if problem.graph is None:
        return needs_graph(problem)
    if not uses(problem, "conv2d"):
        return "there is no two-dimensional convolution"
    fixed = all(operand(conv, 1).op == "get_attr" for conv in nodes_calling(problem.graph, "conv2d"))
    return "" if fixed else "a convolution's weight is computed in forward"


RECIPE = Recipe(
    "channels_last",
    "images and convolution weights channels-last, outputs contiguous",
    Stage.LAYOUT,
    channels_last,
    declines,
    edits_weights=True,
    prior_cpu=0.05,
    prior_cuda=0.1,
    blamed_for=("channels_last", "memory format", "memory_format", "view size is not compatible"),
)
