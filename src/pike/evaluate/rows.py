"""How far an output lies from the right answer, as a whole and in its worst row.

Knows numbers in float64, a piece of an output at a time, and how they group into rows. Does not know what is allowed
(`correctness`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

import torch

LEAST_ROW = 32
"""Rows shorter than this are judged together with their neighbours: the rms of a few elements is luck."""
_PIECE_ELEMENTS = 1 << 22
"""So many are looked at together: a GPU that holds a large model has no room for several copies of its output."""
_SMALLEST_SCALE = 1e-2
"""A row of small values is measured against its own scale, but against no less than this share of the whole output's:
rows that cancel to zero have no scale of their own."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Error figures of one output; also used for what each of them may be.

    Attributes:
        largest: largest absolute error.
        rms: root-mean-square error of all elements.
        row_rms: the largest rms error of one row.
        row_largest_share: the largest share that a row's largest error has in that row's largest value.
        row_rms_share: the largest share that a row's rms error has in that row's rms value.
    """

    largest: float = 0.0
    rms: float = 0.0
    row_rms: float = 0.0
    row_largest_share: float = 0.0
    row_rms_share: float = 0.0

    def __mul__(self, factors: Figures) -> Figures:
        return Figures(*(a * b for a, b in zip(astuple(self), astuple(factors), strict=True)))

    def times(self, budget: Figures) -> float:
        """How many times over its budget the worst figure lies."""
        return max(times_over(a, b) for a, b in zip(astuple(self), astuple(budget), strict=True))


def times_over(value: float, budget: float) -> float:
    """`value` in units of `budget`; a value beyond a budget of zero is 1e300 times over it, a finite number."""
    if value <= budget:
        return 0.0 if value == 0.0 else min(value / budget, 1.0) if math.isfinite(budget) else 1.0
    return min(value / budget, 1e300) if budget else 1e300


def most(several: Iterable[Figures]) -> Figures:
    """The largest of each figure."""
    return Figures(*(max(column) for column in zip(*(astuple(one) for one in several), strict=True)))


def row_length(shape: tuple[int, ...]) -> int:
    """How many consecutive elements make one row of an output.

    The last dimension, or as many neighbours along the dimensions before it as make `LEAST_ROW` elements. The elements
    of an output with one dimension belong to different samples more often than not, so it is cut in such pieces.
    """
    last = shape[-1] if len(shape) > 1 else 1
    return max(last, 1) * math.ceil(LEAST_ROW / max(last, 1))


class Rows:
    """What is known of each row of one output, added piece by piece."""

    def __init__(self, length: int) -> None:
        """Nothing yet.

        Args:
            length: elements of a row.
        """
        self._length = length
        self._found: list[torch.Tensor] = []

    def add(self, output: torch.Tensor, answer: torch.Tensor, where: torch.Tensor) -> None:
        """The next rows of an output.

        Args:
            output, answer: float64, flat and equally long.
            where: bool, equally long: what counts; both are finite there.
        """
        error = _cut((output - answer).abs().where(where, 0.0), self._length)
        values = _cut(answer.abs().where(where, 0.0), self._length)
        count = _cut(where, self._length).sum(dim=1).double()
        own = (count, error.square().sum(dim=1), values.square().sum(dim=1), error.amax(dim=1), values.amax(dim=1))
        self._found.append(torch.stack(own))

    @property
    def count(self) -> int:
        """How many elements count."""
        return sum(int(found[0].sum()) for found in self._found)

    def figures(self) -> Figures:
        """The errors."""
        if not self.count:
            return Figures()
        count, errors, values, largest, peak = torch.cat(self._found, dim=1)
        rms, scale = ((squares / count.clamp(min=1.0)).sqrt() for squares in (errors, values))
        total = float(count.sum())
        return Figures(
            largest=float(largest.max()),
            rms=math.sqrt(float(errors.sum()) / total),
            row_rms=float(rms.max()),
            row_largest_share=_worst_share(largest, peak, float(peak.max())),
            row_rms_share=_worst_share(rms, scale, math.sqrt(float(values.sum()) / total)),
        )

    def scales(self) -> Figures:
        """The values against which errors are measured: largest, rms, rms of the largest row, and 1 for both shares."""
        if not self.count:
            return Figures(row_largest_share=1.0, row_rms_share=1.0)
        count, _, values, _, peak = torch.cat(self._found, dim=1)
        rms = math.sqrt(float(values.sum()) / float(count.sum()))
        return Figures(float(peak.max()), rms, float((values / count.clamp(min=1.0)).max().sqrt()), 1.0, 1.0)

    def worst(self) -> int:
        """Which row has the largest share of error, counted from 0."""
        _, errors, values, _, _ = torch.cat(self._found, dim=1)
        return int((errors / values.clamp(min=_SMALLEST_SCALE**2 * float(values.max()))).argmax())


def in_pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The same elements of tensors of one shape, flat and in float64, whole rows at a time.

    Args:
        tensors: all real, or all complex: a complex number becomes two neighbours in its row.
    """
    flat = [_real(tensor).reshape(-1) for tensor in tensors]
    length = row_length(real_shape(tensors[0]))
    step = max(_PIECE_ELEMENTS // length, 1) * length
    for start in range(0, flat[0].numel(), step):
        yield tuple(one[start : start + step].double() for one in flat)


def real_shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape in which a tensor's numbers group into rows."""
    shape = tuple(tensor.shape)
    if not tensor.is_complex():
        return shape
    return (*shape[:-1], 2 * shape[-1]) if shape else (2,)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _cut(flat: torch.Tensor, length: int) -> torch.Tensor:
    """(rows, length), the last row filled up with zeros."""
    short = -flat.numel() % length
    return (torch.nn.functional.pad(flat, (0, short)) if short else flat).view(-1, length)


def _worst_share(errors: torch.Tensor, of: torch.Tensor, whole: float) -> float:
    if whole == 0.0:
        return math.inf if bool((errors > 0).any()) else 0.0  # no value at all to be a share of
    return float((errors / of.clamp(min=_SMALLEST_SCALE * whole)).max())
