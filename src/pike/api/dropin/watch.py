"""Whether anything that a module's answers depend on changed since it was last looked at.

Knows torch's version counters, addresses and layouts of tensors, Python's versions of
dictionaries, and a sample of the bytes in main memory. Does not know what follows from a change.
"""

import ctypes
import weakref
from functools import cache
from operator import attrgetter, is_
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from pike.api.dropin.state import ModuleState, Unwatchable, parts

SAMPLED_BYTES = 4096
"""What is read of weights in main memory before each call: all of it, or a sample of every tensor
with its first and its last element."""

_version = attrgetter("_version")
_classes = attrgetter("__dict__")


def _identities(items: dict[Any, Any]) -> Any:
    """The keys and the identities of the values, which a watch keeps alive."""
    return tuple(items), tuple(map(id, items.values()))


# The counters with which torch's own compiler guards its code; without them a look is several times slower.
_guards: Any = getattr(torch._C._dynamo, "guards", None)
_dict_version = getattr(_guards, "dict_version", _identities)
_tensor_guards = getattr(_guards, "TensorGuards", None)


class ModuleWatch:
    """Sees cheaply that a module's weights, modes or structure changed since the watch began.

    Attributes:
        devices: where tensors are.
        training: whether any submodule is in training mode.
        require_grad: whether an answer of the original would record gradients.

    Raises:
        Unwatchable: a tensor has no address or no version.
    """

    def __init__(self, found: ModuleState) -> None:
        _follow_optimisers()
        self._found, self._tensors = found, found.tensors
        self.devices = {tensor.device for tensor in found.tensors}
        self.training = any(child.training for child in found.modules.values())
        self.require_grad = any(tensor.requires_grad for tensor in found.tensors)
        self._stepped = False
        if any(tensor.is_inference() for tensor in found.tensors):
            raise Unwatchable("its weights were made under torch.inference_mode(); make the model outside of it")
        try:
            self._storages = [tensor.untyped_storage() for tensor in found.tensors]
            _watches.add(self)
            self._addresses = self._look_at_addresses()
        except (RuntimeError, NotImplementedError) as error:  # sparse tensors and wrapper subclasses
            raise Unwatchable("its weights have no address at which changes could be seen") from error
        self._layouts = [(tensor.shape, tensor.stride(), tensor.dtype) for tensor in found.tensors]
        self._guards = {mode: _guard(mode, found.tensors) for mode in (False, True)}
        self._sample = _Sample([*found.tensors, *found.arrays])
        self._bytes = self._sample.read()
        self._structure = self._look_at_structure()
        # An address or identity is compared, so what lies there must not be freed.
        self._held = [list(items.values()) for items in found.dicts], [list(parts(value)) for value in found.others]

    def unchanged(self) -> bool:
        """Whether everything is as it was when the watch began."""
        return (
            not self._stepped
            and not any(self._found.empty)
            and self._look_at_structure() == self._structure
            and self._look_at_addresses() == self._addresses
            and self._same_layouts()
            and self._sample.read() == self._bytes
        )

    def same_weights(self, later: "ModuleWatch") -> bool:
        """Whether a later watch began with the weights with which this one did."""
        return (
            not self._stepped
            and len(self._tensors) == len(later._tensors)
            and all(map(is_, self._tensors, later._tensors))
            and (self._addresses, self._layouts, self._bytes) == (later._addresses, later._layouts, later._bytes)
        )

    def stepped(self, storages: set[int]) -> None:
        """Note a step of an optimiser of these storages; fused steps leave the versions as they are."""
        self._stepped = self._stepped or any(storage.data_ptr() in storages for storage in self._storages)

    def _look_at_structure(self) -> tuple[list[Any], list[Any], list[Any]]:
        found = self._found
        others = [tuple(map(id, parts(value))) for value in found.others]
        classes = [tuple(map(id, variables.values())) for variables in map(_classes, found.classes)]
        return [*map(_dict_version, found.dicts)], others, classes

    def _look_at_addresses(self) -> tuple[list[int], list[int]]:
        return list(map(_version, self._tensors)), list(map(torch.Tensor.data_ptr, self._tensors))

    def _same_layouts(self) -> bool:
        guard = self._guards[torch.is_inference_mode_enabled()]
        if guard is not None:
            return bool(guard.check(*self._tensors))
        return self._layouts == [(tensor.shape, tensor.stride(), tensor.dtype) for tensor in self._tensors]


class _Sample:
    """A sample of the bytes of tensors in main memory, read in one go.

    Only read it while all tensors have their storages and addresses.
    """

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        here = [tensor for tensor in tensors if tensor.device.type == "cpu" and tensor.numel()]
        whole = sum(tensor.nbytes for tensor in here) <= SAMPLED_BYTES
        share = SAMPLED_BYTES // max(1, len(here))
        places = [_places(tensor, tensor.numel() if whole else share // tensor.element_size()) for tensor in here]
        joined = np.concatenate(places) if places else np.zeros(0, np.int64)
        first, last = (int(joined.min()), int(joined.max())) if places else (0, -1)
        self._places = joined - first
        memory = (ctypes.c_uint8 * (last - first + 1)).from_address(first)
        self._memory = np.ctypeslib.as_array(memory) if places else joined

    def read(self) -> bytes:
        return self._memory.take(self._places).tobytes()


def _places(tensor: torch.Tensor, count: int) -> Any:
    """The addresses of the bytes of some elements, evenly spread."""
    indices = np.unique(np.linspace(0, tensor.numel() - 1, min(tensor.numel(), max(2, count))).astype(np.int64))
    along = np.unravel_index(indices, tensor.shape or (1,))
    offsets: Any = sum(place * step for place, step in zip(along, tensor.stride() or (1,), strict=True))
    size = tensor.element_size()
    return (tensor.data_ptr() + offsets.reshape(-1, 1) * size + np.arange(size)).reshape(-1)


def _guard(inference: bool, tensors: list[torch.Tensor]) -> Any:
    """torch's check of types, layouts and gradients; it depends on whether inference mode is on."""
    if _tensor_guards is None or not tensors:
        return None
    with torch.inference_mode(inference):
        return _tensor_guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)


_watches: "weakref.WeakSet[ModuleWatch]" = weakref.WeakSet()


@cache
def _follow_optimisers() -> None:
    register_optimizer_step_pre_hook(_stepping)
    register_optimizer_step_post_hook(_stepping)


def _stepping(optimiser: torch.optim.Optimizer, *_: Any) -> None:
    storages = {tensor.untyped_storage().data_ptr() for group in optimiser.param_groups for tensor in group["params"]}
    for watch in list(_watches):
        watch.stepped(storages)
