"""Answers for a model that asks for values where there are none.

Models ask how many tokens chose an expert, where a mask holds, or whether a number is zero. On the meta device nobody
knows; `Supposed` gives one of two answers that differ as much as they can. What a model returns under both is taken not
to depend on such values, which two answers make likely and do not prove. Imports torch and is imported when it is
needed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Supposed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, questions for values of tensors on the meta device are answered.

    Args:
        all_alike: every value is the same and true, so that one expert has all tokens and a mask holds everywhere; else
            values are false, spread evenly where they are counted, and a mask holds nowhere.
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
        """How often each of `minlength` numbers is among so many values: on the CPU, since it will be read."""
        kinds = max(minlength, 2 - self._all_alike)  # so that without a least length the two answers differ
        if self._all_alike:
            counts = torch.zeros(kinds, dtype=torch.int64)
            counts[0] = values
            return counts
        share, rest = divmod(values, kinds)
        return torch.tensor([share + (number < rest) for number in range(kinds)])
