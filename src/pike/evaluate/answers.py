"""The right answers of a task: the reference in float64 and at each allowed reduced precision, in the judge.

Knows how to run copies of the reference model at other precisions and what to do when one cannot run. Does not know
candidates.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pike.core.evaluation import Precision
from pike.evaluate.child.layout import flatten_output, put_together, take_apart
from pike.evaluate.correctness import Expected
from pike.evaluate.reference import Inputs
from pike.evaluate.widened import widened

Forward = Callable[[Inputs], list[torch.Tensor]]
_MOST_COPY_BYTES = 4 << 30
"""A float64 copy beyond this size leaves too little memory for a large model's two other copies, the reference's own
and the candidate's."""


class Answers:
    """The reference at several precisions on one device.

    Attributes:
        exact: whether the float64 copy runs; where it does not (out of memory, float32 fixed inside), the native
            outputs stand in and the error floor is wider.
    """

    def __init__(
        self, model: nn.Module, device: torch.device, precision: Precision, example: Inputs, alone: bool = True
    ) -> None:
        """Try each precision once.

        Args:
            model: the reference.
            device: where answers are computed.
            precision: the loosest arithmetic that is allowed.
            example: inputs of one call.
            alone: nobody else is at work on the device, so that memory that is not there will not be there later.

        Raises:
            torch.OutOfMemoryError: there is no memory for one of them, and others are at work.
        """
        self.device = device
        attempt = _Attempt(device, example, alone)
        self._float64 = attempt.exact(model)
        self.exact = self._float64 is not None
        self._variants = attempt.reduced(model, precision)

    def expected(self, inputs: Inputs, native: list[torch.Tensor]) -> Expected:
        """What a call on `inputs` must return, given what the native reference returned."""
        answers = self._float64(inputs) if self._float64 is not None else native
        return Expected(answers, native, self.variants(inputs), self.exact)

    def variants(self, inputs: Inputs) -> list[list[torch.Tensor]]:
        """What the reference returns at each allowed reduced precision."""
        return [forward(inputs) for forward in self._variants]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Tries whether a precision is possible."""

    device: torch.device
    example: Inputs
    alone: bool

    def exact(self, model: nn.Module) -> Forward | None:
        """The float64 answer: from a copy, or layer by layer where one would crowd out the candidate."""
        ways: list[Callable[[], Callable[..., Any]]] = [
            _cast(model, torch.float64, self.device),
            lambda: widened(model.to(self.device), torch.float64),
        ]
        if _bytes_at(model, torch.float64) > _MOST_COPY_BYTES:
            ways.reverse()
        made = (self.forward(way, torch.float64) for way in ways)
        return next((forward for forward in made if forward is not None), None)

    def reduced(self, model: nn.Module, precision: Precision) -> list[Forward]:
        """The answers at each reduced precision that is allowed."""
        if precision is Precision.SAME:
            return []
        if precision is Precision.TF32 and self.device.type == "cuda":
            return [_with_tf32(model.to(self.device), self.device)]
        # A CPU has no TF32; float16 has the same ten bits of mantissa.
        kinds = [torch.float16] if precision is Precision.TF32 else [torch.float16, torch.bfloat16]
        made = [self.forward(_cast(model, kind, self.device), kind) for kind in kinds]
        if not any(made):
            made.append(self.forward(_autocast(model, torch.bfloat16, self.device), None))
        return [forward for forward in made if forward is not None]

    def forward(self, make: Callable[[], Callable[..., Any]], dtype: torch.dtype | None) -> Forward | None:
        """A forward that was seen to run once, or None where this precision is not possible for this model."""
        try:
            forward = _forward(make(), dtype, self.device)
            forward(self.example)
        except torch.OutOfMemoryError:
            if not self.alone:
                raise
            return None
        except Exception:  # the user's own model, at a precision it was not written for, may raise anything
            return None
        return forward


def _bytes_at(model: nn.Module, dtype: torch.dtype) -> int:
    count: int = sum(tensor.numel() for tensor in model.state_dict().values())
    return count * dtype.itemsize


def native(model: nn.Module, device: torch.device) -> Forward:
    """Runs the reference in its own precision; inputs are copied where they lie elsewhere, outputs come to the device.

    Args:
        model: the reference, on the device.
        device: where it lies.
    """
    return _forward(model, None, device)


def _cast(model: nn.Module, dtype: torch.dtype, device: torch.device) -> Callable[[], nn.Module]:
    """Makes a copy whose floating-point weights have `dtype`; complex ones stay complex, unlike with `Module.to`."""

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device, _dtype_for(tensor, dtype))

    return lambda: copy.deepcopy(model)._apply(convert)  # type: ignore[no-untyped-call]


def _autocast(model: nn.Module, dtype: torch.dtype, device: torch.device) -> Callable[[], Callable[..., Any]]:
    native = copy.deepcopy(model).to(device)

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device.type, dtype=dtype):
            return native(*args, **kwargs)

    return lambda: run


def _with_tf32(model: nn.Module, device: torch.device) -> Forward:
    plain = _forward(model, None, device)

    def run(inputs: Inputs) -> list[torch.Tensor]:
        before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        try:
            return plain(inputs)
        finally:
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before

    return run


def _forward(model: Callable[..., Any], dtype: torch.dtype | None, device: torch.device) -> Forward:
    def run(inputs: Inputs) -> list[torch.Tensor]:
        args, kwargs = _moved(inputs, dtype, device)
        with torch.no_grad():
            return [leaf.to(device) for leaf, _ in flatten_output(model(*args, **kwargs))]

    return run


def _moved(inputs: Inputs, dtype: torch.dtype | None, device: torch.device) -> Any:
    tensors, structure = take_apart((inputs.args, inputs.kwargs))
    return put_together(structure, [tensor.to(device, _dtype_for(tensor, dtype)) for tensor in tensors])


def _dtype_for(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.dtype:
    if dtype is torch.float64 and tensor.is_complex():
        return torch.complex128
    return dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
