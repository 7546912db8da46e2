"""Arguments and results as trees of tensors in tuples, lists and mappings.

Knows how to walk, compare and rebuild them. Does not know what they are for.
"""

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import torch

ALIGNMENT_BYTES = 16
"""The alignment that vectorised kernels may assume of an input; the judge's buffers have it too."""


def key_of(value: Any) -> Any:
    """Make a key that is equal for calls that are alike, None for values that have none."""
    if type(value) is torch.Tensor:
        if value.layout is not torch.strided or value.is_conj() or value.is_neg():
            return None
        return value.dtype, value.shape, value.device, value.stride()
    if type(value) in (tuple, list):
        keys = [key_of(item) for item in value]
        return None if None in keys else (type(value), *keys)
    if type(value) is dict:
        keys = [(name, key_of(item)) for name, item in value.items()]
        return None if any(key is None for _, key in keys) else (dict, *keys)
    if type(value) is float:
        return float, value, math.copysign(1.0, value)
    return (type(value), value) if type(value) in (bool, int, str, type(None)) else None


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Change the tensors in `value`; only containers of changed tensors are rebuilt."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        items = {key: mapped(item, change) for key, item in value.items()}
        if all(items[key] is value[key] for key in value):
            return value
        made: Any = copy.copy(value)
        made.update(items)
        return made
    if isinstance(value, tuple | list):
        parts = [mapped(item, change) for item in value]
        if all(a is b for a, b in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor's elements, in order."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def overlap(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether the memory of one tensor may reach into that of another."""
    spans = sorted(
        (
            one.data_ptr(),
            one.element_size() * sum((size - 1) * step for size, step in zip(one.shape, one.stride(), strict=True)),
        )
        for one in tensors
        if one.numel()
    )
    return any(first + length >= second for (first, length), (second, _) in pairwise(spans))


def contiguous(value: Any, channels_last: bool = False) -> Any:
    """Copy tensors that are not contiguous; with `channels_last`, images in that layout stay as they are."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is not torch.strided:
            return tensor
        tensor = tensor.resolve_conj().resolve_neg()  # kernels see no lazy conjugate
        kept = channels_last and tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
        return tensor if kept else tensor.contiguous()

    return mapped(value, change)


def aligned(value: Any) -> Any:
    """Copy tensors whose address is not aligned."""
    return mapped(value, lambda tensor: tensor.clone() if tensor.data_ptr() % ALIGNMENT_BYTES else tensor)
