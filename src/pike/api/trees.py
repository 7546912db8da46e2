"""Arguments and results as trees of tensors in tuples, lists and mappings.

Knows how to walk, compare and rebuild them. Does not know what they are for.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

ALIGNMENT_BYTES = 16
"""What vectorised kernels may assume of an input's address; the judge's buffers are aligned at least so."""


def key_of(value: Any) -> Any:
    """What decides whether two calls are alike, as something quick to compare; None if it cannot tell."""
    if type(value) is torch.Tensor:
        if value.layout is not torch.strided:
            return None
        return value.dtype, value.shape, value.device, value.stride()
    if type(value) in (tuple, list):
        keys = [key_of(item) for item in value]
        return None if None in keys else (type(value), *keys)
    if type(value) is dict:
        keys = [(name, key_of(item)) for name, item in value.items()]
        return None if any(key is None for _, key in keys) else (dict, *keys)
    return (type(value), value) if isinstance(value, bool | int | float | str | None) else None


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in `value`, depth first."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item)


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """`value` with its tensors changed; containers are only rebuilt where a tensor in them changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        items = {key: mapped(item, change) for key, item in value.items()}
        if all(items[key] is value[key] for key in value):
            return value
        if type(value) is dict:
            return items
        made = copy.copy(value)
        for key, item in items.items():
            made[key] = item  # type: ignore[index]
        return made
    if isinstance(value, tuple | list):
        parts = [mapped(item, change) for item in value]
        if all(a is b for a, b in zip(parts, value, strict=True)):
            return value
        if hasattr(value, "_fields"):
            return type(value)(*parts)
        return type(value)(parts)
    return value


def dense(value: Any) -> Any:
    """Tensors in a layout that the judge hands out (contiguous or channels last), copied where they are in another."""
    return mapped(value, _dense_tensor)


def contiguous(value: Any) -> Any:
    """Tensors in the contiguous layout, copied where they are in another."""
    return mapped(value, lambda tensor: tensor.contiguous() if tensor.layout is torch.strided else tensor)


def are_aligned(value: Any) -> bool:
    """Whether every tensor is at an address that vectorised code may assume."""
    if type(value) is torch.Tensor:
        return value.data_ptr() % ALIGNMENT_BYTES == 0
    if isinstance(value, Mapping):
        return all(map(are_aligned, value.values()))
    if isinstance(value, tuple | list):
        return all(map(are_aligned, value))
    return not isinstance(value, torch.Tensor) or value.data_ptr() % ALIGNMENT_BYTES == 0


def aligned(value: Any) -> Any:
    """Tensors at addresses that vectorised code may assume, copied where they are not."""
    return mapped(value, lambda tensor: tensor.clone() if tensor.data_ptr() % ALIGNMENT_BYTES else tensor)


def _dense_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided or tensor.is_contiguous():
        return tensor
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return tensor
    return tensor.contiguous()
