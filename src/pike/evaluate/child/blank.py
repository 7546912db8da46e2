"""Construction of a model whose weights arrive later: random initialisation is skipped.

Knows which calls of torch draw random values into a tensor. Drawing billions of them takes a minute on a CPU, for
values that are overwritten; zeros in their place are quick, and the same each time. Does not know where they come
from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

_DRAWN = frozenset(
    {
        torch.Tensor.uniform_,
        torch.Tensor.normal_,
        nn.init.uniform_,
        nn.init.normal_,
        nn.init.kaiming_uniform_,
        nn.init.kaiming_normal_,
    }
)
"""What torch calls to draw initial weights; its other initialisers come down to the first two."""


class Blank(TorchFunctionMode):
    """While inside, random initialisation writes zeros."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run `func`, or write zeros into the tensor that it would draw."""
        if func not in _DRAWN:
            return func(*args, **(kwargs or {}))
        tensor = args[0] if args else (kwargs or {})["tensor"]
        with torch.no_grad():
            return tensor.zero_()
