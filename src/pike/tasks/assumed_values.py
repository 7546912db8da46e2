"""Assumed values for models that read tensors on the meta device, where tensors have no values.

A model may ask how many tokens chose an expert, where a mask holds, or whether a number is zero.
`AssumedValues` gives one of two answers that differ as much as possible. An output shape that is
the same under both most likely does not depend on such values. Imports torch, so import it late.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class AssumedValues(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While this mode is entered, tensors on the meta device have assumed values.

    Args:
        all_alike: whether every value is the same and true: one expert has all tokens, and a mask
            holds everywhere. Otherwise values are false and spread evenly over what is counted.
    """

    def __init__(self, all_alike: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._all_alike = all_alike

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        first = args[0] if args else None
        if isinstance(first, torch.Tensor) and first.is_meta:
            if func is torch.ops.aten._local_scalar_dense.default:
                return torch.full((), float(self._all_alike), dtype=first.dtype).item()
            if func is torch.ops.aten.bincount.default:
                return self._counted(first.numel(), *args[1:], **kwargs)
            if func is torch.ops.aten.nonzero.default:
                rows = first.numel() if self._all_alike else 0
                return torch.empty((rows, first.dim()), dtype=torch.int64, device="meta")
        return func(*args, **kwargs)

    def _counted(self, values: int, weights: torch.Tensor | None = None, minlength: int = 0) -> torch.Tensor:
        """The assumed counts of `bincount`, on the CPU because the model will read them."""
        kinds = max(minlength, 2 - self._all_alike)  # so that without a least length the two answers differ
        if self._all_alike:
            counts = torch.zeros(kinds, dtype=torch.int64)
            counts[0] = values
            return counts
        share, rest = divmod(values, kinds)
        return torch.tensor([share + (number < rest) for number in range(kinds)])
