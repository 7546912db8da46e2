"""Whether a module's weights changed since they were last looked at.

Knows torch's version counters and addresses of tensors. Does not know why anybody asks.
"""

from __future__ import annotations

from operator import attrgetter, is_
from typing import Any

import torch
from torch import nn

from pike.engine.originals import dtypes_of

_version = attrgetter("_version")
_training = attrgetter("training")


class Weights:
    """A cheap way to see that a module's weights, modes or structure changed since it was last looked at.

    About 0.1 microseconds a tensor and look; `.data` edited in place is not seen.

    Attributes:
        devices: where parameters and buffers are.
        dtypes: their types, as `pike.engine.originals.dtypes_of` writes them.
        watchable: False where a tensor has no address (wrapper subclasses), so that changes cannot be seen.
    """

    def __init__(self, module: nn.Module) -> None:
        self._modules = list(module.modules())
        places = [
            (slots, name)
            for child in self._modules
            for slots in (child._parameters, child._buffers)
            for name, tensor in slots.items()
            if tensor is not None
        ]
        self._slots: list[Any] = [slots for slots, _ in places]
        self._names = [name for _, name in places]
        self._tensors: list[Any] = [slots[name] for slots, name in places]
        self.devices: set[torch.device] = {tensor.device for tensor in self._tensors}
        self.dtypes = dtypes_of(module)
        self.watchable = True
        try:
            self._seen = self._look()
        except (RuntimeError, NotImplementedError):  # wrapper subclasses have no address
            self.watchable, self._seen = False, (0, 0)

    @property
    def training(self) -> bool:
        """Whether any submodule is in training mode."""
        return any(map(_training, self._modules))

    @property
    def require_grad(self) -> bool:
        """Whether an answer of the original would record gradients."""
        return any(tensor.requires_grad for tensor in self._tensors)

    def unchanged(self) -> bool:
        """Whether all tensors are the same objects at the same addresses with the same contents."""
        try:
            same = all(map(is_, map(dict.__getitem__, self._slots, self._names), self._tensors))
        except KeyError:
            return False
        return same and self._look() == self._seen

    def _look(self) -> tuple[int, int]:
        # Version counters only grow, so their sum changes exactly when one of them does. Tensors made under
        # inference_mode have none; they cannot be changed in place outside of it either.
        try:
            versions = sum(map(_version, self._tensors))
        except RuntimeError:
            versions = sum(tensor._version for tensor in self._tensors if not tensor.is_inference())
        return versions, sum(map(torch.Tensor.data_ptr, self._tensors))
