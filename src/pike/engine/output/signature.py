"""A call in one line of text: structure, dtypes, shapes and memory layout of its arguments.

Knows how to describe arguments so that calls can be compared across processes and files. Does not
know devices or values of tensors. It is text because `best.py` and warnings show it to people.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_PLAIN = (bool, int, float, str, type(None))


class Indescribable(ValueError):
    """An argument is no tensor, plain value or container of those; the message is its type."""


def describe(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """One line such as `(float32[2, 3, 224, 224], mask=bool[2, 8])`.

    Tensors are described by dtype, shape and, unless contiguous, layout; plain values by
    themselves. Code that was judged on one call can answer another with the same description on
    the same device.

    Raises:
        Indescribable: an argument of another type.
    """
    named = (f"{key}={_describe(value)}" for key, value in sorted(kwargs.items()))
    return f"({', '.join([*map(_describe, args), *named])})"


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield every tensor in `value`, depth first."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item)


def tensors_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The tensors of a call; arguments by keyword come last and sorted, as in its description."""
    return [*tensors_in(args), *tensors_in([kwargs[key] for key in sorted(kwargs)])]


def digest(tensor: torch.Tensor) -> str:
    """A short name for a tensor's type, shape and bytes."""
    import torch

    memory = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)} ".encode() + memory.numpy().tobytes()).hexdigest()[:16]


def _describe(value: Any) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return _describe_tensor(value)
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_describe(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_describe, value))}]"
    if isinstance(value, tuple):
        return f"({''.join(f'{_describe(item)}, ' for item in value).rstrip()})"
    raise Indescribable(type(value).__qualname__)


def _describe_tensor(tensor: torch.Tensor) -> str:
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        raise Indescribable(f"{type(tensor).__qualname__} with layout {tensor.layout}")
    text = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
    if tensor.is_contiguous():
        return text
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return f"{text} channels-last"
    return f"{text} strides {list(tensor.stride())}"
