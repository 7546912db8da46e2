"""Running a captured graph in a narrower dtype, with casts at the border: what the `half` and `bf16` recipes share.

Knows which constants and casts inside the graph must follow. Does not know which dtype is allowed. Imports nothing of
PIKE but graph editing, because its functions are copied into candidates.
"""

from __future__ import annotations

from typing import Any

import torch

from pike.recipes.graph import call_before, capture_graph, finish_edit, first_operation


def run_inside(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype
) -> torch.fx.GraphModule:
    """The model with float32 weights, inputs and intermediate values replaced by `dtype`; outputs as before."""
    graph = capture_graph(model, args, kwargs)
    for tensor in [*graph.parameters(), *graph.buffers()]:
        if tensor.dtype == torch.float32:
            tensor.data = tensor.data.to(dtype)
    nodes = list(graph.graph.nodes)
    first = first_operation(graph)
    for node in nodes:
        if node.op == "placeholder" and is_float32(node):
            cast = call_before(first, torch.ops.aten.to.dtype, node, dtype)
            node.replace_all_uses_with(cast, delete_user_cb=lambda user, cast=cast: user is not cast)
        elif node.op == "call_function":
            node.args = narrowed(node.args, dtype)
            node.kwargs = narrowed(node.kwargs, dtype)
    output = nodes[-1]
    output.args = torch.fx.map_arg(
        output.args,
        lambda node: call_before(output, torch.ops.aten.to.dtype, node, torch.float32) if is_float32(node) else node,
    )
    finish_edit(graph)
    return graph


def is_float32(node: torch.fx.Node) -> bool:
    """Whether a node's value was a float32 tensor when the model was captured."""
    return getattr(node.meta.get("val"), "dtype", None) == torch.float32


def narrowed(value: Any, dtype: torch.dtype) -> Any:
    """Operator arguments with float32 replaced and constants (mask fills) brought into the range of `dtype`."""
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


class Autocast(torch.nn.Module):
    """Runs a module under autocast and gives outputs the dtypes that the module has without it."""

    def __init__(
        self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.model = model
        self.dtype = dtype
        tensors = [
            value for value in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)
        ]
        self.device_type = tensors[0].device.type if tensors else "cpu"
        with torch.no_grad():
            outputs = torch.utils._pytree.tree_leaves(model(*args, **kwargs))
        self.dtypes = [getattr(value, "dtype", None) for value in outputs]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's outputs, computed in the narrower dtype where autocast deems it safe."""
        with torch.autocast(self.device_type, self.dtype):
            outputs = self.model(*args, **kwargs)
        leaves, structure = torch.utils._pytree.tree_flatten(outputs)
        cast = [leaf if dtype is None else leaf.to(dtype) for leaf, dtype in zip(leaves, self.dtypes, strict=True)]
        return torch.utils._pytree.tree_unflatten(cast, structure)
