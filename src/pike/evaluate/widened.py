"""A model run at a wider precision without a second copy of its weights.

Knows how to widen the weights of each module only while it runs, so that a float64 answer of a model of gigabytes costs
the memory of its largest layer. Does not know what the answer is for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def widened(model: nn.Module, dtype: torch.dtype) -> Callable[..., Any]:
    """`model` as a function whose floating-point weights and buffers have `dtype` while it is called.

    The model itself is as before between calls. Modules that use the weights of another module, past its `forward`,
    meet them in their own precision; torch then mostly refuses to mix them.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        narrow: dict[nn.Module, list[_Own]] = {}

        def widen(module: nn.Module, _: Any) -> None:
            narrow.setdefault(module, []).append(_own(module))
            for held, name, tensor in narrow[module][-1]:
                held[name] = tensor.to(dtype)

        def restore(module: nn.Module, *_: Any) -> None:
            for held, name, tensor in narrow[module].pop() if narrow.get(module) else ():
                held[name] = tensor

        handles = []
        for module in model.modules():
            handles.append(module.register_forward_pre_hook(widen, prepend=True))
            handles.append(module.register_forward_hook(restore, always_call=True))
        try:
            return model(*args, **kwargs)
        finally:
            for handle in handles:
                handle.remove()

    return run


_Own = list[tuple[dict[str, Any], str, torch.Tensor]]


def _own(module: nn.Module) -> _Own:
    """A module's own floating-point parameters and buffers, with where they are held."""
    return [
        (held, name, tensor)
        for held in (module._parameters, module._buffers)
        for name, tensor in held.items()
        if tensor is not None and tensor.is_floating_point()
    ]
