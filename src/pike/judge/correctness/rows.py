"""How far an output lies from the right answer, as a whole and in its worst row.

Knows float64 numbers and rows, a piece at a time. Does not know the allowed errors (`compare`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

import torch

LEAST_ROW = 32
"""Shorter rows are judged with their neighbours: the rms of a few elements is luck."""
PIECE_ELEMENTS = 1 << 22
"""Elements compared at once; a GPU may have no room for copies of a whole output."""
_SMALLEST_SCALE = 1e-2
"""The least scale of a row, as a share of the output's: rows may cancel to zero."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Error figures of one output, or the limits on them.

    Attributes:
        largest: largest absolute error.
        rms: root-mean-square error of all elements.
        row_rms: the largest rms error of one row.
        row_largest_share: the largest ratio of a row's largest error to its largest value.
        row_rms_share: the largest ratio of a row's rms error to its rms value.
    """

    largest: float = 0.0
    rms: float = 0.0
    row_rms: float = 0.0
    row_largest_share: float = 0.0
    row_rms_share: float = 0.0

    def __mul__(self, factors: Figures) -> Figures:
        return Figures(*(a * b for a, b in zip(astuple(self), astuple(factors), strict=True)))

    def times(self, budget: Figures) -> float:
        """The largest ratio of a figure to its budget."""
        return max(times_over(a, b) for a, b in zip(astuple(self), astuple(budget), strict=True))


def times_over(value: float, budget: float) -> float:
    """`value` in units of `budget`; a value beyond a budget of zero is 1e300 times over it."""
    if value <= budget:
        return 0.0 if value == 0.0 else min(value / budget, 1.0) if math.isfinite(budget) else 1.0
    return min(value / budget, 1e300) if budget else 1e300


def most(several: Iterable[Figures]) -> Figures:
    """The largest of each figure."""
    return Figures(*(max(column) for column in zip(*(astuple(one) for one in several), strict=True)))


def row_length(shape: tuple[int, ...]) -> int:
    """How many consecutive elements make one row of an output.

    The last dimension, or as many neighbours as make `LEAST_ROW` elements. An output with one
    dimension is cut into such pieces, because its elements usually belong to different samples.
    """
    last = shape[-1] if len(shape) > 1 else 1
    return max(last, 1) * math.ceil(LEAST_ROW / max(last, 1))


class Rows:
    """Sums of each row of one output, added piece by piece."""

    def __init__(self, length: int) -> None:
        """Start without rows; each will have `length` elements."""
        self._length = length
        self._found: list[torch.Tensor] = []

    def add(self, output: torch.Tensor, answer: torch.Tensor, where: torch.Tensor) -> None:
        """Add the next rows, flat and in float64, of which the elements `where` count."""
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
        """The scales of the errors: largest value, rms, rms of the largest row, 1 for shares."""
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

    A complex number becomes two neighbours in its row.
    """
    flat = [(torch.view_as_real(one.resolve_conj()) if one.is_complex() else one).reshape(-1) for one in tensors]
    length = row_length(real_shape(tensors[0]))
    step = max(PIECE_ELEMENTS // length, 1) * length
    for start in range(0, flat[0].numel(), step):
        yield tuple(one[start : start + step].double() for one in flat)


def real_shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """A tensor's shape in real numbers, which group into rows."""
    shape = tuple(tensor.shape)
    if not tensor.is_complex():
        return shape
    return (*shape[:-1], 2 * shape[-1]) if shape else (2,)


def _cut(flat: torch.Tensor, length: int) -> torch.Tensor:
    """(rows, length), the last row filled up with zeros."""
    short = -flat.numel() % length
    return (torch.nn.functional.pad(flat, (0, short)) if short else flat).view(-1, length)


def _worst_share(errors: torch.Tensor, of: torch.Tensor, whole: float) -> float:
    if whole == 0.0:
        return math.inf if bool((errors > 0).any()) else 0.0  # no value at all to be a share of
    return float((errors / of.clamp(min=_SMALLEST_SCALE * whole)).max())
