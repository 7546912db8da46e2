"""Construction of a model whose weights arrive later: random initialisation is skipped.

Drawing billions of random values takes a minute on a CPU; zeros are quick, and always the same.
"""

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
"""What torch calls to draw initial weights; its other initialisers call the first two."""


class SkipInit(TorchFunctionMode):
    """While this mode is entered, random initialisation writes zeros."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run `func`, or write zeros into the tensor that it would draw."""
        if func not in _DRAWN:
            return func(*args, **(kwargs or {}))
        tensor = args[0] if args else (kwargs or {})["tensor"]
        with torch.no_grad():
            return tensor.zero_()
