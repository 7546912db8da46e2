"""How much a captured graph computes: matrix products, multiplications and bytes.

Knows shapes of the examples in a graph. A value whose size is not known before the model runs
counts as nothing. Does not know devices, nor how long anything takes.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.capture.graph import calls, example_of, has_size, knows_sizes

PRODUCTS = (
    *("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "bilinear", "scaled_dot_product_attention"),
    *("conv1d", "conv2d", "conv3d", "convolution"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
)
"""Operators that accumulate in float32 for inputs of any dtype, and that narrow inputs make faster.
"""


def operations(graph: torch.fx.GraphModule) -> int:
    """Multiplications and additions of a graph's products, convolutions and attentions."""
    return sum(work(node) for node in graph.graph.nodes if node.op == "call_function")


def largest_bytes(graph: torch.fx.GraphModule) -> int:
    """The size of the largest value of a graph."""
    leaves = [leaf for node in graph.graph.nodes for leaf in torch.utils._pytree.tree_leaves(example_of(node))]
    return max((leaf.numel() * leaf.element_size() for leaf in leaves if has_size(leaf)), default=0)


def may_draw(node: torch.fx.Node) -> bool:
    """Whether an operator may draw random numbers; attention does where it drops weights."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    dropout: Any = node.kwargs.get("dropout_p", node.args[4] if len(node.args) > 4 else 0.0)
    return not calls(node, "scaled_dot_product_attention") or bool(dropout)


def work(node: torch.fx.Node) -> int:
    """Multiplications and additions of one product, convolution or attention; 0 for anything else."""
    name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
    result, examples = example_of(node), [example_of(source) for source in node.all_input_nodes]
    shapes = [example.shape for example in examples if isinstance(example, torch.Tensor)]
    if name not in PRODUCTS or len(shapes) < 2 or not knows_sizes(node):
        return 0
    if name == "scaled_dot_product_attention":
        return int(4 * result.numel() * shapes[1][-2])
    if name.startswith("conv_transpose"):
        return 2 * shapes[0].numel() * shapes[1][1:].numel()
    if name.startswith("conv"):
        return int(2 * result.numel() * shapes[1][1:].numel())
    first = shapes[1] if name in ("addmm", "baddbmm") and len(shapes) > 2 else shapes[0]
    return int(2 * result.numel() * first[-1]) if first else 0
