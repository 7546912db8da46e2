"""What a graph would give in a narrower dtype, found out in float32 on a CPU.

Knows how to interpret a captured graph with every value held in float32 and rounded to the dtype
that its node has. That is fast on any CPU and near to what a GPU does, which accumulates in float32
and rounds results. Does not know what an error may be (`narrowing`).
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pike.recipes.capture.graph import example_of

NARROW = (torch.float16, torch.bfloat16)
"""Dtypes that are simulated."""


class RoundedInterpreter(torch.fx.Interpreter):
    """Runs a graph with 16-bit values held in float32 and rounded to what they could be."""

    def flat(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the outputs for one call's arguments."""
        leaves = [_hold(leaf) for leaf in torch.utils._pytree.tree_leaves((args, kwargs))]
        with torch.no_grad():
            outputs = self.run(*leaves, enable_io_processing=False)
        return torch.utils._pytree.tree_leaves(outputs)

    def fetch_attr(self, target: str) -> Any:
        """A weight in the dtype that is held."""
        return _hold(super().fetch_attr(target))

    def run_node(self, node: torch.fx.Node) -> Any:
        """One node's value, rounded to the dtype that the graph gives it."""
        if node.op != "call_function":
            return super().run_node(node)
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        args, kwargs = _dtypes(args), _dtypes(kwargs)
        function: Any = node.target
        return _rounded(function(*args, **kwargs), example_of(node))


def _dtypes(value: Any) -> Any:
    """Arguments with narrow dtypes replaced by float32."""
    if isinstance(value, tuple | list):
        return type(value)(_dtypes(item) for item in value)
    if isinstance(value, dict):
        return {key: _dtypes(item) for key, item in value.items()}
    return torch.float32 if value in NARROW and isinstance(value, torch.dtype) else value


def _hold(value: Any) -> Any:
    return value.detach().float() if isinstance(value, torch.Tensor) and value.dtype in NARROW else value


class Accumulating(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Products and convolutions in 16 bits accumulate in float32 and round once, as on a GPU.

    A CPU's own 16-bit kernels for them may be a hundred times slower.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """One operator of a model whose weights are in 16 bits."""
        kwargs = kwargs or {}
        tensors = [leaf for leaf in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        dtypes = {tensor.dtype for tensor in tensors}
        if func.overloadpacket not in _ACCUMULATING or len(dtypes) != 1 or not dtypes.issubset(NARROW):
            return func(*args, **kwargs)
        wide = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.float, (args, kwargs))
        return func(*wide[0], **wide[1]).to(dtypes.pop())


_ACCUMULATING = {getattr(torch.ops.aten, name) for name in ("mm", "bmm", "addmm", "baddbmm", "convolution")}


def as_if_cast(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype
) -> list[Any] | None:
    """The outputs, flat, of a model that is cast as a whole; None where it cannot run like that."""
    cast = copy.deepcopy(model)
    for tensor in [*cast.parameters(), *cast.buffers()]:  # Module.to would make complex numbers real
        tensor.data = _in_dtype(tensor.data, dtype)
    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, lambda leaf: _in_dtype(leaf, dtype), (args, kwargs))
    try:
        with torch.no_grad(), Accumulating():  # type: ignore[no-untyped-call]
            return torch.utils._pytree.tree_leaves(cast(*args, **kwargs))
    except Exception:  # the user's own model, in a dtype it was not written for, may raise anything
        return None


def _in_dtype(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _rounded(value: Any, example: Any) -> Any:
    """A value, or each of a tuple, rounded to the narrow dtypes that the examples have."""
    if isinstance(value, torch.Tensor):
        dtype = getattr(example, "dtype", None)
        return value.to(dtype).to(value.dtype) if dtype in NARROW and value.is_floating_point() else value
    if isinstance(value, tuple | list) and isinstance(example, tuple | list):
        return [_rounded(one, other) for one, other in zip(value, example, strict=False)]
    return value
