"""Running a captured graph in a narrower dtype, with casts at the border: what the `half` and
`bf16` recipes share.

Knows how to give every node of a graph one of two dtypes and how to put casts between them. Which
nodes stay in float32 is said by names (`keep`). Does not know which dtype is allowed nor which
names are needed (`narrowing`). Imports nothing of PIKE but graph editing, because its functions are
copied into candidates.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from pike.recipes.capture.constants import constant_operators, constant_value, varying_nodes
from pike.recipes.capture.graph import (
    add_tensor,
    call_before,
    calls,
    capture_graph,
    example_of,
    finish_edit,
    first_operation,
    tensor_at,
)
from pike.recipes.capture.work import PRODUCTS

FRAGILE = "fragile"
"""In `keep`: operators whose results leave the range of 16 bits, or cancel, where their inputs do
not."""

ALL_BUT_PRODUCTS = "all but products"
"""In `keep`: everything but matrix products, convolutions and fused attention."""

FRAGILE_OPERATORS = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "square", "rsqrt", "reciprocal", "sinh", "cosh"),
    *("softplus", "logsumexp", "cumsum", "cumprod", "logcumsumexp", "prod", "sum", "mean", "var", "std", "var_mean"),
    *("norm", "linalg_vector_norm", "sin", "cos", "tan", "erfinv", "nan_to_num", "topk", "argmax", "argmin", "sort"),
)
"""What `FRAGILE` stands for."""


def run_inside(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype, keep: tuple[str, ...]
) -> torch.fx.GraphModule:
    """The model with `dtype` in place of float32 weights, inputs and intermediate values.

    Outputs keep their dtypes. Complex numbers, integers, booleans and what is computed from them
    stay as they are. What depends on weights only is computed once, in float32.

    Args:
        model: the model, or its graph.
        args: positional arguments of one call.
        kwargs: keyword arguments of one call.
        dtype: float16 or bfloat16.
        keep: names of nodes, or of groups (`FRAGILE`, `ALL_BUT_PRODUCTS`), that stay in float32.
    """
    graph = capture_graph(model, args, kwargs)
    narrow = nodes_to_narrow(graph, keep)
    border = Border(graph, dtype, narrow)
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and node not in border.constant:
            border.settle(node)
        elif node.op == "output":
            node.args = torch.fx.map_arg(node.args, border.returned)
    finish_edit(graph)
    return graph


def is_float32(node: Any) -> bool:
    """Whether a node's value was a float32 tensor when the model was captured."""
    return getattr(example_of(node), "dtype", None) == torch.float32 if isinstance(node, torch.fx.Node) else False


def leaf_dtypes(node: torch.fx.Node) -> set[torch.dtype]:
    """The dtypes of the tensors that a node gives: one, or those of a tuple."""
    leaves = torch.utils._pytree.tree_leaves(example_of(node))
    return {leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor)}


def nodes_to_narrow(graph: torch.fx.GraphModule, keep: tuple[str, ...]) -> set[torch.fx.Node]:
    """The operators that are to compute in the narrower dtype."""
    constant = constant_operators(graph)
    wide = {node for node in graph.graph.nodes if node.op == "call_function" and must_stay(node, keep)}
    for node in graph.graph.nodes:
        if node.op == "call_function" and not calls(node, *PRODUCTS) and reads_only(node, wide, constant):
            wide.add(node)
    for node in reversed(list(graph.graph.nodes)):
        follows = node.op == "call_function" and not calls(node, *PRODUCTS, "embedding")
        if follows and node.users and all(user in wide for user in node.users):
            wide.add(node)
    chosen = [node for node in graph.graph.nodes if node.op == "call_function" and node not in wide]
    return {node for node in chosen if node not in constant and torch.float32 in dtypes_around(node)}


def reads_only(node: torch.fx.Node, wide: set[torch.fx.Node], constant: set[torch.fx.Node]) -> bool:
    """Whether a node's varying float32 inputs all come from operators that stay in float32."""
    sources = [source for source in node.all_input_nodes if torch.float32 in leaf_dtypes(source)]
    varying = [source for source in sources if source.op != "get_attr" and source not in constant]
    return bool(varying) and all(source in wide for source in varying)


def dtypes_around(node: torch.fx.Node) -> set[torch.dtype]:
    """The dtypes that a node reads and gives."""
    return leaf_dtypes(node).union(*(leaf_dtypes(source) for source in node.all_input_nodes))


def must_stay(node: torch.fx.Node, keep: tuple[str, ...]) -> bool:
    """Whether a node always computes in float32."""
    known = isinstance(node.target, torch._ops.OpOverload) or node.target is operator.getitem
    if not (known or getattr(node.target, "any_dtype", False)):
        return True
    if node.name in keep or any(dtype.is_complex or dtype == torch.float64 for dtype in dtypes_around(node)):
        return True
    if torch.float32 in (*node.args, *node.kwargs.values()) and calls(node, "softmax", "log_softmax", "sum", "mean"):
        return True
    reads = set().union(*(leaf_dtypes(source) for source in node.all_input_nodes))
    if torch.float32 in leaf_dtypes(node) and reads and torch.float32 not in reads:
        return True
    if ALL_BUT_PRODUCTS in keep and node.target is not operator.getitem:
        return not calls(node, *PRODUCTS, "embedding")
    return FRAGILE in keep and calls(node, *FRAGILE_OPERATORS)


class Border:
    """The casts between the nodes of two dtypes, each made once; constants are stored cast."""

    def __init__(self, graph: torch.fx.GraphModule, dtype: torch.dtype, narrow: set[torch.fx.Node]) -> None:
        self.graph = graph
        self.dtype = dtype
        self.narrow = narrow
        self.constant = constant_operators(graph)
        self.varying = varying_nodes(graph)
        self.first = first_operation(graph)
        self.originally = {node: is_float32(node) for node in graph.graph.nodes}
        self.made: dict[tuple[torch.fx.Node, torch.dtype], torch.fx.Node] = {}

    def settle(self, node: torch.fx.Node) -> None:
        """Have a node read and give the dtype it is to compute in."""
        dtype = self.dtype if node in self.narrow else torch.float32
        if node.target is not operator.getitem:
            node.args = torch.fx.map_arg(node.args, lambda source: self.read(source, dtype))
            node.kwargs = torch.fx.map_arg(node.kwargs, lambda source: self.read(source, dtype))
        if node in self.narrow:
            node.args, node.kwargs = narrowed(node.args, dtype), narrowed(node.kwargs, dtype)
            if makes_default_dtype(node):
                node.kwargs = {**node.kwargs, "dtype": dtype}
            node.meta["val"] = torch.utils._pytree.tree_map_only(
                torch.Tensor, lambda leaf: leaf.to(dtype) if leaf.dtype == torch.float32 else leaf, example_of(node)
            )

    def read(self, source: torch.fx.Node, dtype: torch.dtype) -> torch.fx.Node:
        """The node to read `source` from in `dtype`; `source` itself where it has no float32."""
        if not self.originally.get(source) or (source not in self.constant and self.given(source) == dtype):
            return source
        if (source, dtype) not in self.made:
            self.made[source, dtype] = self.cast(source, dtype)
        return self.made[source, dtype]

    def returned(self, source: torch.fx.Node) -> torch.fx.Node:
        """The node that the graph returns: never a stored constant, which a caller might change."""
        return source if source in self.constant else self.read(source, torch.float32)

    def given(self, source: torch.fx.Node) -> torch.dtype:
        """The dtype in which a node's value is there."""
        if source.target is operator.getitem:
            return self.given(source.all_input_nodes[0])
        return self.dtype if source in self.narrow else torch.float32

    def cast(self, source: torch.fx.Node, dtype: torch.dtype) -> torch.fx.Node:
        """A node with the value of `source` in `dtype`; for constants a stored tensor."""
        stored = tensor_at(self.graph, source)
        if stored is None and source in self.constant:
            stored = constant_value(self.graph, source, self.varying)
        if stored is not None:
            return add_tensor(self.graph, "constant", into_range(stored, dtype), self.first)
        if source.op == "placeholder":
            return call_before(self.first, torch.ops.aten.to.dtype, source, dtype)
        return call_before(source.next, torch.ops.aten.to.dtype, source, dtype)


def into_range(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A constant in `dtype`; finite values beyond its range become its largest finite ones."""
    limit = torch.finfo(dtype).max
    return torch.where(value.isinf(), value, value.clamp(-limit, limit)).to(dtype)


def makes_default_dtype(node: torch.fx.Node) -> bool:
    """Whether a node makes a tensor out of no other and leaves its dtype to the default."""
    schema = getattr(node.target, "_schema", None)
    named = schema is not None and any(argument.name == "dtype" for argument in schema.arguments)
    return named and not node.all_input_nodes and node.kwargs.get("dtype") is None


def narrowed(value: Any, dtype: torch.dtype) -> Any:
    """Operator arguments with float32 replaced and constants brought into the range of `dtype`."""
    if isinstance(value, tuple | list):
        return type(value)(narrowed(item, dtype) for item in value)
    if isinstance(value, dict):
        return {key: narrowed(item, dtype) for key, item in value.items()}
    if value is torch.float32:
        return dtype
    if isinstance(value, float) and abs(value) != float("inf"):
        limit = torch.finfo(dtype).max
        return max(-limit, min(limit, value))
    return value
