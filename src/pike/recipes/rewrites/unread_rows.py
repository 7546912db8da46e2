"""Rows that nobody reads are not computed.

Knows the graph. A classifier that reads the first token of a transformer needs no other token from
the last block on: neither its perceptron nor the queries of the others. Selections move up through
whatever treats rows apart (linear layers, norms, attention by query, pointwise operators), as long
as nothing else reads the rest. Values are the same. Does not know operators that mix rows, and
leaves a selection that the model returns as a part of a larger tensor.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from pike.recipes.capture.graph import (
    call_before,
    calls,
    capture_graph,
    example_of,
    finish_edit,
    has_size,
    knows_sizes,
    operand,
)
from pike.recipes.framework.recipe import Recipe, RecipeStage

Rows = tuple[int, int, int]
"""A dimension, the first row along it and how many."""


def unread_rows(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Compute only those rows that a selection reads, up to where the others are read too."""
    graph = capture_graph(model, args, kwargs)
    read = rows_read(graph)
    kept: dict[torch.fx.Node, torch.fx.Node] = {}
    for node, rows in reversed(read.items()):
        kept[node] = with_rows(node, rows, kept)
    for selection in [user for node in read for user in node.users if selected(user)]:
        source, (at, _, _) = operand(selection, 0), selected(selection) or (0, 0, 0)
        if calls(selection, "select"):
            selection.args = (kept[source], at, 0)
        else:
            selection.replace_all_uses_with(kept[source])
            graph.graph.erase_node(selection)
    for node in read:  # attention counts as random, which nothing else would erase
        graph.graph.erase_node(node)
    finish_edit(graph)
    return graph


def with_rows(node: torch.fx.Node, rows: Rows, kept: dict[torch.fx.Node, torch.fx.Node]) -> torch.fx.Node:
    """The same call for these rows, of operands that were cut before or are cut now."""
    parts: dict[torch.fx.Node, torch.fx.Node] = {}
    for source, (at, first, count) in (rows_of_operands(node, rows) or {}).items():
        cut = kept.get(source)
        parts[source] = cut or call_before(node, torch.ops.aten.slice.Tensor, source, at, first, first + count)
    given = torch.fx.map_arg(node.args, lambda source: parts.get(source, source))
    if calls(node, "reshape"):
        shape = list(example_of(node).shape)
        shape[rows[0]] = rows[2]
        given = (given[0], shape)
    return call_before(node, node.target, *given, **node.kwargs)


def rows_read(graph: torch.fx.GraphModule) -> dict[torch.fx.Node, Rows]:
    """The nodes of which every reader needs the same few rows only, last ones first."""
    read: dict[torch.fx.Node, Rows] = {}
    for node in reversed(graph.graph.nodes):
        if not has_size(example_of(node)) or not knows_sizes(node):
            continue
        needed = {needs(user, node, read) for user in node.users}
        rows = needed.pop() if len(needed) == 1 else None
        if rows and 2 * rows[2] <= example_of(node).shape[rows[0]] and rows_of_operands(node, rows) is not None:
            read[node] = rows
    return read


def worth_leaving(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The products among them: all else costs less than the selections."""
    products = "linear", "matmul", "mm", "addmm", "scaled_dot_product_attention"
    return [node for node in rows_read(graph) if calls(node, *products)]


def needs(user: torch.fx.Node, node: torch.fx.Node, read: dict[torch.fx.Node, Rows]) -> Rows | None:
    """The rows of a node that one of its readers needs, None for all."""
    if user in read:
        return (rows_of_operands(user, read[user]) or {}).get(node)
    return selected(user)


def selected(node: torch.fx.Node) -> Rows | None:
    """The rows that a selection takes from what it reads, None for any other node."""
    if not calls(node, "select", "slice") or not has_size(example_of(operand(node, 0))) or is_returned_view(node):
        return None
    shape, at = example_of(operand(node, 0)).shape, operand(node, 1) or 0
    at %= len(shape)
    first = operand(node, 2) or 0
    if not isinstance(first, int) or operand(node, 4) not in (None, 1):
        return None
    count = 1 if calls(node, "select") else example_of(node).shape[at]
    return (at, max(first + shape[at], 0) if first < 0 else first, count) if count else None


def is_returned_view(node: torch.fx.Node) -> bool:
    """Whether the model returns a part of a larger tensor: its strides are those of the whole."""
    if example_of(node).is_contiguous():
        return False
    schemas = [(user, getattr(user.target, "_schema", None)) for user in node.users]
    views = [user for user, schema in schemas if schema and any(result.alias_info for result in schema.returns)]
    return any(user.op == "output" for user in node.users) or any(map(is_returned_view, views))


def rows_of_operands(node: torch.fx.Node, rows: Rows) -> dict[torch.fx.Node, Rows] | None:
    """Which rows of which operands give these rows; operands that are not named are read whole.

    None where the node mixes rows, or nobody knows whether it does.
    """
    at, first, count = rows
    shape, source = example_of(node).shape, operand(node, 0)
    if any(isinstance(value, torch.fx.Node) for value in node.kwargs.values()):
        return None
    if torch.Tag.pointwise in getattr(node.target, "tags", ()):
        return pointwise_rows(node, rows)
    if calls(node, "contiguous", "clone", "to", "_to_copy"):
        return {source: rows}
    if calls(node, "mean"):
        averaged = [place % len(shape) for place in operand(node, 1) or ()]
        return {source: rows} if operand(node, 2) and averaged and at not in averaged else None
    if calls(node, "layer_norm", "rms_norm"):
        return {source: rows} if at < len(shape) - len(operand(node, 1)) else None
    if calls(node, "linear"):
        return {source: rows} if at < len(shape) - 1 else None
    if calls(node, "mm", "addmm"):
        return {operand(node, int(calls(node, "addmm"))): rows} if at == 0 else None
    if calls(node, "softmax"):
        return {source: rows} if operand(node, 1) % len(shape) != at else None
    if calls(node, "transpose"):
        pair = [operand(node, place) % len(shape) for place in (1, 2)]
        return {source: (pair[1 - pair.index(at)] if at in pair else at, first, count)}
    if calls(node, "permute"):
        return {source: (operand(node, 1)[at] % len(shape), first, count)}
    if calls(node, "reshape"):
        return reshaped_rows(node, rows)
    if calls(node, "scaled_dot_product_attention"):
        return query_rows(node, rows)
    if calls(node, "matmul") and at == len(shape) - 2 and len(example_of(source).shape) == len(shape):
        return {source: rows} if source is not operand(node, 1) else None
    return None


def pointwise_rows(node: torch.fx.Node, rows: Rows) -> dict[torch.fx.Node, Rows] | None:
    """The same rows of every operand that is not repeated along them."""
    at, first, count = rows
    found: dict[torch.fx.Node, Rows] = {}
    for source in node.all_input_nodes:
        if not has_size(example_of(source)):
            return None
        shape = example_of(source).shape
        own = at - (len(example_of(node).shape) - len(shape))
        if own >= 0 and shape[own] != 1:
            found[source] = (own, first, count)
    return found


def reshaped_rows(node: torch.fx.Node, rows: Rows) -> dict[torch.fx.Node, Rows] | None:
    """The rows along the dimension of the operand that begins where the rows' own begins."""
    at, first, count = rows
    source = operand(node, 0)
    old, new = example_of(source).shape, example_of(node).shape
    inner = math.prod(new[at + 1 :])
    for place in range(len(old)):
        unit = math.prod(old[place + 1 :])
        if math.prod(old[:place]) == math.prod(new[:at]) and old[place] > 1 and unit:
            whole = first * inner % unit == 0 and count * inner % unit == 0
            return {source: (place, first * inner // unit, count * inner // unit)} if whole else None
    return None


def query_rows(node: torch.fx.Node, rows: Rows) -> dict[torch.fx.Node, Rows] | None:
    """The rows of the queries and of the mask; keys and values are read whole."""
    at, first, count = rows
    query, mask = operand(node, 0), operand(node, 3)
    if at != len(example_of(node).shape) - 2 or operand(node, 5) or query in (operand(node, 1), operand(node, 2)):
        return None
    found = {query: rows}
    if mask is not None and (shape := example_of(mask).shape)[-2] != 1:
        found[mask] = (len(shape) - 2, first, count)
    return found


RECIPE = Recipe(
    "unread_rows",
    "rows that nobody reads left out",
    RecipeStage.REWRITE,
    unread_rows,
    lambda problem: problem.lacks(worth_leaving, "every row of every product is read"),
    prior_cpu=0.1,
    prior_cuda=0.1,
    blamed_for=("unread_rows",),
)
