"""The shape of a call in one line of text: structure, dtypes, shapes and memory layout of its arguments.

Knows how to describe arguments so that two calls can be compared, also across processes and files. Does not know
devices or values of tensors. Text, because it goes into `best.py` and into warnings that people read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_PLAIN = (bool, int, float, str, type(None))


class Indescribable(ValueError):
    """An argument is neither tensor, plain value nor a container of those; the message is its type."""


def describe(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """One line such as `(float32[2, 3, 224, 224], mask=bool[2, 8])`.

    Tensors are described by dtype, shape and, unless contiguous, layout; plain values by themselves. Two calls with the
    same description can be answered by code that was judged on one of them, if the devices agree too.

    Raises:
        Indescribable: an argument of another type.
    """
    named = (f"{key}={_describe(value)}" for key, value in sorted(kwargs.items()))
    return f"({', '.join([*map(_describe, args), *named])})"


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
