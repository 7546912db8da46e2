"""Outputs that belong to the caller: copies of what a CUDA graph would overwrite at its next replay.

Knows nested outputs. Imports nothing of PIKE, because its class is copied into candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class FreshOutputs:
    """Calls a function whose outputs are overwritten by its next call, and returns copies of them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's outputs in memory of their own."""
        outputs = self.function(*args, **kwargs)
        if isinstance(outputs, torch.Tensor):
            return outputs.clone()
        return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, outputs)
