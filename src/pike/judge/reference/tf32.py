"""TensorFloat-32 as a candidate may use it: where the libraries choose it, and in every product.

A library chooses by layout and size whether a product uses TF32, so one answer of the reference says
too little: a convolution of three channels has none, and the same one in channels-last has. Does not
know what is compared.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from pike.judge.reference.forward import Forward
from pike.judge.reference.reference import Inputs

_AHEAD = {"addmm": 1, "addbmm": 1, "baddbmm": 1, "addmv": 1}
"""Operators whose first argument is added; the two operands of a product follow."""
_PRODUCTS = {*_AHEAD, "mm", "bmm", "mv", "dot", "matmul", "linear", "convolution"}
_PRODUCTS |= {f"conv{kind}{size}d" for kind in ("", "_transpose") for size in (1, 2, 3)}
_DROPPED = 13
"""Bits of float32's mantissa that TF32 does not have."""
NEAREST, TOWARDS_ZERO = 1 << _DROPPED - 1, 0
"""How operands become numbers of TF32: as libraries convert them, and as tensor cores read float32,
which leave the last bits out (Triton's `tl.dot`). Added to the bits before those are dropped."""


def chosen(plain: Forward) -> Forward:
    """What the libraries make of a reference when they may use TF32."""

    def forward(inputs: Inputs) -> list[torch.Tensor]:
        before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        try:
            return plain(inputs)
        finally:
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before

    return forward


def everywhere(plain: Forward, how: int = NEAREST) -> Forward:
    """A reference whose products all have operands of TF32, made so, and are added up in float32."""

    def forward(inputs: Inputs) -> list[torch.Tensor]:
        with _RoundedOperands(how):
            return plain(inputs)

    return forward


class _RoundedOperands(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, how: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._how = how

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._overloadpacket.__name__
        if name in _PRODUCTS:
            first = _AHEAD.get(name, 0)
            operands = tree_map_only(torch.Tensor, lambda one: rounded(one, self._how), args[first : first + 2])
            args = (*args[:first], *operands, *args[first + 2 :])
        return func(*args, **(kwargs or {}))


def rounded(tensor: torch.Tensor, how: int = NEAREST) -> torch.Tensor:
    """Numbers of TF32; tensors of other types stay, and so do infinities and NaN."""
    if tensor.dtype is not torch.float32:
        return tensor
    bits = (tensor.view(torch.int32) + how) & -(1 << _DROPPED)
    return torch.where(tensor.isfinite(), bits.view(torch.float32), tensor)
