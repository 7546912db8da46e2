"""How far an output lies from the right answer, as a whole and in its worst row.

Knows numbers in float64 and how they group into rows. Does not know what is allowed (`correctness`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass

import torch

LEAST_ROW = 32
"""Rows shorter than this are judged together with their neighbours: the rms of a few elements is luck."""
_PIECE_ELEMENTS = 1 << 24
"""So many are measured at a time: a GPU that holds a large model has no room for several copies of its output."""
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


def measure(output: torch.Tensor, answer: torch.Tensor, where: torch.Tensor) -> Figures:
    """The error of `output`, over the elements that `where` selects.

    Args:
        output, answer: float64, of the same shape.
        where: bool, of the same shape; both are finite there.
    """
    if not bool(where.any()):
        return Figures()
    length = row_length(tuple(answer.shape))
    pieces = zip(_pieces(output, length), _pieces(answer, length), _pieces(where, length), strict=True)
    found = torch.cat([_of_rows(some, right, there, length) for some, right, there in pieces], dim=1)
    count, row_rms, row_scale, row_largest, row_peak = found
    total = int(count.sum())
    return Figures(
        largest=float(row_largest.max()),
        rms=math.sqrt(float((row_rms.square() * count).sum()) / total),
        row_rms=float(row_rms.max()),
        row_largest_share=_worst_share(row_largest, row_peak, float(row_peak.max())),
        row_rms_share=_worst_share(row_rms, row_scale, math.sqrt(float((row_scale.square() * count).sum()) / total)),
    )


def scales(answer: torch.Tensor, where: torch.Tensor) -> Figures:
    """The values against which errors are measured: largest, rms, rms of the largest row, and 1 for both shares."""
    own = measure(torch.zeros_like(answer), answer, where)
    return Figures(own.largest, own.rms, own.row_rms, 1.0, 1.0)


def worst_row(output: torch.Tensor, answer: torch.Tensor, where: torch.Tensor) -> int:
    """Which row has the largest share of error, counted from 0."""
    length = row_length(tuple(answer.shape))
    error = _rows((output - answer).abs().where(where, 0.0), length)
    values = _rows(answer.abs().where(where, 0.0), length)
    scale = values.square().sum(dim=1)
    return int((error.square().sum(dim=1) / scale.clamp(min=_SMALLEST_SCALE**2 * float(scale.max()))).argmax())


def _pieces(tensor: torch.Tensor, length: int) -> tuple[torch.Tensor, ...]:
    """Whole rows of a tensor, so many that what is computed from them takes little memory beside the tensor."""
    return torch.split(tensor.reshape(-1), max(_PIECE_ELEMENTS // length, 1) * length)


def _of_rows(output: torch.Tensor, answer: torch.Tensor, where: torch.Tensor, length: int) -> torch.Tensor:
    """(5, rows): how many elements count, rms of error and of values, largest error and largest value."""
    error = _rows((output - answer).abs().where(where, 0.0), length)
    values = _rows(answer.abs().where(where, 0.0), length)
    count = _rows(where, length).sum(dim=1).clamp(min=1)
    return torch.stack([count.double(), _rms(error, count), _rms(values, count), error.amax(dim=1), values.amax(dim=1)])


def _rows(tensor: torch.Tensor, length: int) -> torch.Tensor:
    flat = tensor.reshape(-1)
    short = -flat.numel() % length
    return torch.nn.functional.pad(flat, (0, short)).view(-1, length)


def _rms(rows: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    return (rows.square().sum(dim=1) / count).sqrt()


def _worst_share(errors: torch.Tensor, of: torch.Tensor, whole: float) -> float:
    if whole == 0.0:
        return math.inf if bool((errors > 0).any()) else 0.0  # no value at all to be a share of
    return float((errors / of.clamp(min=_SMALLEST_SCALE * whole)).max())
