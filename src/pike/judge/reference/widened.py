"""A model run at a wider precision without a second copy of its weights.

Each module is widened only while it runs, so float64 costs no more memory than the largest layer.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn


def widened(model: nn.Module, dtype: torch.dtype) -> Callable[..., Any]:
    """`model` as a function that computes with weights and buffers of `dtype`.

    Between calls the model is unchanged. A module that uses weights of another one, without its
    `forward`, finds them in their own precision; torch then mostly refuses to mix them.
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

        with ExitStack() as hooks:
            for module in model.modules():
                hooks.enter_context(module.register_forward_pre_hook(widen, prepend=True))
                hooks.enter_context(module.register_forward_hook(restore, always_call=True))
            return model(*args, **kwargs)

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
