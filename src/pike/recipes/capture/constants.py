"""What in a captured graph depends on weights and constants only.

Knows how to find such nodes and their values. Does not know recipes. Imports nothing of PIKE but
`graph`, because its functions are copied into candidates.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.capture.graph import example_of, tensor_at

MOST_CONSTANT_BYTES = 1 << 28
"""Larger constants are computed again at every call: reading them costs more than computing them.
"""


def varying_nodes(graph: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """The nodes whose value depends on inputs, on chance, or on code that is no operator."""
    varying: set[torch.fx.Node] = set()
    for node in graph.graph.nodes:
        random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        fixed = node.op in ("get_attr", "call_function") and not random
        if not fixed or any(source in varying for source in node.all_input_nodes):
            varying.add(node)
    return varying


def constant_value(graph: torch.fx.GraphModule, node: Any, varying: set[torch.fx.Node]) -> Any:
    """The value of a node that depends on weights and constants only; None where it varies.

    Args:
        graph: the captured model.
        node: a node, or a plain value, which is returned as it is.
        varying: what `varying_nodes` gives for the graph.
    """
    if not isinstance(node, torch.fx.Node):
        return node
    if node in varying:
        return None
    if node.op == "get_attr":
        return tensor_at(graph, node)
    values = {source: constant_value(graph, source, varying) for source in node.all_input_nodes}
    with torch.no_grad():
        args: Any = torch.fx.map_arg(node.args, values.__getitem__)
        kwargs: Any = torch.fx.map_arg(node.kwargs, values.__getitem__)
        function: Any = node.target
        return function(*args, **kwargs)


def constant_operators(graph: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """The operators on weights and constants only whose results are tensors of modest size."""
    varying = varying_nodes(graph)
    found = set()
    for node in graph.graph.nodes:
        example = example_of(node)
        if node.op != "call_function" or node in varying or not isinstance(example, torch.Tensor):
            continue
        if example.numel() * example.element_size() <= MOST_CONSTANT_BYTES:
            found.add(node)
    return found
