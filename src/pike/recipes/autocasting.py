"""A module under autocast whose outputs keep their dtypes: what the `autocast_*` recipes share.

Knows torch.autocast. Needs no graph. Imports nothing of PIKE, because its class is copied into candidates.
"""

from __future__ import annotations

from typing import Any

import torch


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
