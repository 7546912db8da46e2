"""The right answers of a task: the reference in float64 and at each allowed reduced precision.

Knows what to do when a precision cannot run. Does not know candidates.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from pike.core.verdict.evaluation import Precision
from pike.judge.correctness.compare import Expected
from pike.judge.reference import tf32
from pike.judge.reference.forward import Forward, Trial, dtype_for
from pike.judge.reference.reference import Inputs
from pike.judge.reference.widened import widened

_MOST_COPY_BYTES = 4 << 30
"""A larger float64 copy would leave too little memory for both children."""


class Answers:
    """The reference at several precisions on one device.

    Attributes:
        exact: whether the reference runs in float64. If not (out of memory, float32 fixed inside),
            its native outputs stand in, and the error floor is wider.
    """

    def __init__(self, model: nn.Module, precision: Precision, trial: Trial, alone: bool = True) -> None:
        """Try each precision once.

        Args:
            model: the reference.
            precision: the loosest arithmetic that is allowed.
            trial: on what and where each is tried.
            alone: no other judge is at work, so a precision that finds no memory is left out.

        Raises:
            torch.OutOfMemoryError: there is no memory for one of them, and others are at work.
        """
        attempt = _Attempt(trial, alone)
        self._float64 = attempt.exact(model)
        self.exact = self._float64 is not None
        self._variants = attempt.reduced(model, precision)

    def expected(self, inputs: Inputs, native: Callable[[], list[torch.Tensor]]) -> Expected:
        """What a call on `inputs` must return.

        Args:
            inputs: of one call.
            native: runs the reference in its own precision. It runs last, when the wider answers
                need no memory any more.
        """
        answers = self._float64(inputs) if self._float64 is not None else None
        variants, own = self.variants(inputs), native()
        return Expected(own if answers is None else answers, own, variants, self.exact)

    def variants(self, inputs: Inputs) -> list[list[torch.Tensor]]:
        """What the reference returns at each allowed reduced precision."""
        return [forward(inputs) for forward in self._variants]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Tries whether a precision is possible."""

    trial: Trial
    alone: bool

    @property
    def device(self) -> torch.device:
        return self.trial.device

    def exact(self, model: nn.Module) -> Forward | None:
        """The float64 answer: from a copy, or layer by layer if that would be too large."""
        ways: list[Callable[[], Callable[..., Any]]] = [
            _cast(model, torch.float64, self.device),
            lambda: widened(model.to(self.device), torch.float64),
        ]
        if 8 * sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers())) > _MOST_COPY_BYTES:
            ways.reverse()
        made = (self.forward(way, torch.float64) for way in ways)
        return next((forward for forward in made if forward is not None), None)

    def reduced(self, model: nn.Module, precision: Precision) -> list[Forward]:
        """The answers at each reduced precision that is allowed."""
        if precision is Precision.SAME:
            return []
        if precision is Precision.TF32:
            plain = self.trial.forward(model.to(self.device))
            made = [self._ran(partial(tf32.everywhere, plain, how)) for how in (tf32.NEAREST, tf32.TOWARDS_ZERO)]
            return [tf32.chosen(plain), *filter(None, made)]
        kinds = [torch.float16, torch.bfloat16]
        made = [self.forward(_cast(model, kind, self.device), kind) for kind in kinds]
        if not any(made):
            made.append(self.forward(_autocast(model, torch.bfloat16, self.device), None))
        return [forward for forward in made if forward is not None]

    def forward(self, make: Callable[[], Callable[..., Any]], dtype: torch.dtype | None) -> Forward | None:
        """A forward that ran once; None if this model cannot run at this precision."""
        return self._ran(lambda: self.trial.forward(make(), dtype))

    def _ran(self, make: Callable[[], Forward]) -> Forward | None:
        try:
            forward = make()
            forward(self.trial.example)
        except torch.OutOfMemoryError:
            if not self.alone:
                raise
            return None
        except Exception:  # the user's own model, at a precision it was not written for, may raise anything
            return None
        return forward


def _cast(model: nn.Module, dtype: torch.dtype, device: torch.device) -> Callable[[], nn.Module]:
    """Makes a copy with weights of `dtype`; unlike with `Module.to`, complex ones stay complex."""

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device, dtype_for(tensor, dtype))

    return lambda: copy.deepcopy(model)._apply(convert)  # type: ignore[no-untyped-call]


def _autocast(model: nn.Module, dtype: torch.dtype, device: torch.device) -> Callable[[], Callable[..., Any]]:
    native = copy.deepcopy(model).to(device)

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device.type, dtype=dtype):
            return native(*args, **kwargs)

    return lambda: run
