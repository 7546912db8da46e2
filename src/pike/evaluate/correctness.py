"""Is an output right: the error budget against a high-precision reference, and the published tolerance beside it.

Knows tensors of one call: the candidate's, the reference's own at the declared precision, and the float64 answer.
Does not know where they came from. The rule (docs/evaluator.md): NaN and infinities exactly where the reference has
them; integers exact; largest error at most 3 times, rms error at most 2 times what the reference itself makes at the
declared precision; in the worst row at most 3 times its worst row; with a floor of a few units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from pike.core.evaluation import OutputError, Tolerance
from pike.evaluate.rows import LEAST_ROW, Figures, Rows, in_pieces, most, real_shape, row_length, times_over

_TIMES = Figures(largest=3.0, rms=2.0, row_rms=3.0, row_largest_share=3.0, row_rms_share=3.0)
"""The worst of many rows is an extreme, like the largest error, and so is the rms of a few elements (`LEAST_ROW`):
twice it would refuse another order of summation now and then (benchmarks/false_refusals.py)."""
_FLOOR_ULPS = Figures(largest=16.0, rms=4.0, row_rms=4.0, row_largest_share=16.0, row_rms_share=4.0)
_NO_FLOAT64_ULPS = 64.0
"""How much wider the floor is where no float64 answer exists: eager and candidate then differ from each other by both
their errors, of which neither is known."""
_PAPER_TOLERANCE = 1e-2
_LOOKS = ((4, 1e300), (12, 10.0))
"""Rounds of the closer look: how many neighbouring inputs, and how far beyond its budget an output is past help."""


class Known:
    """The errors of the reference's own answers, kept while many outputs are compared with the same ones.

    It keeps its native and reduced answers alive, so that none is taken for another that lies where it lay, and of its
    answers on neighbouring inputs only how far they lie off.
    """

    def __init__(self) -> None:
        self._figures: dict[tuple[int, int], tuple[list[torch.Tensor], Figures]] = {}
        self._neighbours: list[tuple[Figures, ...]] = []

    def of(self, answer: list[torch.Tensor], index: int, work_out: Callable[[], Figures]) -> Figures:
        """The figures of one output of an answer, worked out once."""
        if (id(answer), index) not in self._figures:
            self._figures[id(answer), index] = answer, work_out()
        return self._figures[id(answer), index][1]

    def neighbour(self, number: int, work_out: Callable[[], tuple[Figures, ...]]) -> tuple[Figures, ...]:
        """The figures of each output on the neighbouring inputs of a number, worked out once, in their order."""
        if number == len(self._neighbours):
            self._neighbours.append(work_out())
        return self._neighbours[number]


@dataclass(frozen=True, slots=True)
class Expected:
    """What one call must return.

    Attributes:
        answers: per output, the float64 answer (or the native one where float64 could not be had).
        native: per output, what the reference itself returned in its own precision.
        variants: per allowed reduced precision, what the reference returned in it.
        exact: whether `answers` are float64 answers.
        slack: how many times wider than usual the budget is.
        known: where given, figures of the reference's own answers are worked out once for all comparisons.
        nearby: per output, the largest errors that the reference makes on neighbouring inputs; empty where nobody
            looked.
        looks: on how many.
    """

    answers: list[torch.Tensor]
    native: list[torch.Tensor]
    variants: list[list[torch.Tensor]]
    exact: bool
    slack: float = 1.0
    known: Known | None = None
    nearby: tuple[Figures, ...] = ()
    looks: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result for one call.

    Attributes:
        error: the worst output's figures.
        wrong: what is wrong, in words; empty when right.
        times: how many times over its budget the worst figure lies; infinite where no budget could make it right.
    """

    error: OutputError
    wrong: str
    times: float


def compare(outputs: list[torch.Tensor], expected: Expected, tolerance: Tolerance) -> Comparison:
    """Judge all outputs of one call under `tolerance`; the strict figures are reported under both."""
    found = [_compare_one(output, expected, index, tolerance) for index, output in enumerate(outputs)]
    worst: OutputError | None = None
    for one in found:
        worst = worse(worst, one.error)
    vacuous = bool(outputs) and all(_is_vacuous(native) for native in expected.native)
    error = replace(worst or OutputError(0.0, 0.0, 0.0, 0.0), vacuous=vacuous)
    problems = [f"output {index}: {one.wrong}" for index, one in enumerate(found) if one.wrong]
    return Comparison(error, "; ".join(problems), max((one.times for one in found), default=0.0))


def compare_closely(
    outputs: list[torch.Tensor],
    expected: Expected,
    tolerance: Tolerance,
    nearby: Callable[[], list[list[torch.Tensor]]],
) -> Comparison:
    """`compare`, with a closer look at the reference's own error before an output that misses its budget is refused.

    One answer of the reference may be right by luck: a scalar has a single rounding error, and the variance of equal
    numbers is exactly zero. Its answers on inputs that differ by a unit in the last place are not lucky alike.

    Args:
        outputs: the candidate's.
        expected: what the call must return.
        tolerance: the rule.
        nearby: what the reference returns on such neighbouring inputs, at each allowed precision; new ones each time.
    """
    found = compare(outputs, expected, tolerance)
    for looks, hopeless in _LOOKS:
        if not found.wrong or found.times > hopeless or tolerance is Tolerance.PAPER:
            return found
        expected = _looked_around(outputs, expected, looks, nearby)
        found = compare(outputs, expected, tolerance)
    return found


def _looked_around(
    outputs: list[torch.Tensor], expected: Expected, looks: int, nearby: Callable[[], list[list[torch.Tensor]]]
) -> Expected:
    """With what the reference does on so many more neighbouring inputs, of which one at a time lies in memory."""
    places = [_Place(output, expected, index) for index, output in enumerate(outputs)]
    known = expected.known
    if known is not None and not all(place.is_numeric() for place in places):
        known = None  # its figures are of all elements

    def work_out() -> tuple[Figures, ...]:
        return _farthest(places, nearby())

    widest = expected.nearby or tuple(Figures() for _ in outputs)
    for number in range(expected.looks, expected.looks + looks):
        found = known.neighbour(number, work_out) if known is not None else work_out()
        widest = tuple(most(pair) for pair in zip(widest, found, strict=True))
    return replace(expected, nearby=widest, looks=expected.looks + looks)


def _farthest(places: list[_Place], answers: list[list[torch.Tensor]]) -> tuple[Figures, ...]:
    """For each output, the largest figures of several answers of the reference."""
    return tuple(most(place.figures_of(answer[place.index]) for answer in answers) for place in places)


def worse(one: OutputError | None, other: OutputError) -> OutputError:
    """The one that lies further beyond (or nearer to) its budget."""
    return other if one is None or _excess(other) > _excess(one) else one


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some rows of one output, flat and in float64.

    Attributes:
        found: what the output has.
        own: what the reference itself returned.
        truth: what is right; where float64 alone has no number, the reference's own value stands in.
        numeric: where all are to be compared as numbers.
        extra: the same places of further tensors.
    """

    found: torch.Tensor
    own: torch.Tensor
    truth: torch.Tensor
    numeric: torch.Tensor
    extra: tuple[torch.Tensor, ...]

    def misplaced(self) -> torch.Tensor:
        """How many elements are NaN or infinite where they must not be, or the other way round."""
        special = _same_special(self.found, self.own) | _same_special(self.found, self.truth)
        return (~self.numeric & ~special | self.numeric & ~torch.isfinite(self.found)).sum()


@dataclass(frozen=True, slots=True)
class _Place:
    """One output beside what is right, looked at in pieces."""

    output: torch.Tensor
    expected: Expected
    index: int

    @property
    def native(self) -> torch.Tensor:
        """What the reference itself returned."""
        return self.expected.native[self.index]

    def pieces(self, *extra: torch.Tensor) -> Iterator[_Piece]:
        """All of it, with further tensors of the same kind."""
        answer = self.expected.answers[self.index]
        if answer.is_complex() != self.native.is_complex():
            answer = self.native
        for found, own, right, *others in in_pieces(self.output, self.native, answer, *extra):
            truth = torch.where(torch.isfinite(right) | ~torch.isfinite(own), right, own)
            numeric = torch.isfinite(truth) & ~_same_special(found, own)
            yield _Piece(found, own, truth, numeric, tuple(others))

    @property
    def count(self) -> int:
        """How many numbers."""
        return math.prod(real_shape(self.native))

    def is_numeric(self) -> bool:
        """Whether every element is to be compared as a number."""
        return all(bool(piece.numeric.all()) for piece in self.pieces())

    def rows(self) -> tuple[Rows, int]:
        """The output's errors, and how many elements are NaN or infinite in wrong places."""
        rows, misplaced = self._no_rows(), 0
        for piece in self.pieces():
            if not misplaced:
                rows.add(piece.found, piece.truth, piece.numeric)
            misplaced += int(piece.misplaced())
        return rows, misplaced

    def figures_of(self, answer: torch.Tensor) -> Figures:
        """The errors of one of the reference's own answers, over the elements that count for this output."""
        rows = self._no_rows()
        for piece in self.pieces(answer):
            (one,) = piece.extra
            rows.add(one, piece.truth, piece.numeric & torch.isfinite(one))
        return rows.figures()

    def _no_rows(self) -> Rows:
        return Rows(row_length(real_shape(self.native)))


def _compare_one(output: torch.Tensor, expected: Expected, index: int, tolerance: Tolerance) -> Comparison:
    native = expected.native[index]
    if not (native.is_floating_point() or native.is_complex()):
        return _compare_exactly(output, native)
    place = _Place(output, expected, index)
    rows, misplaced = place.rows()
    if misplaced:
        return _hopeless(math.inf, f"NaN or infinity in {misplaced} wrong places")
    error, budget = rows.figures(), _budget(place, rows)
    reported = OutputError(error.largest, error.rms, budget.largest, budget.rms)
    if tolerance is Tolerance.PAPER:
        bad = sum(int(_far(piece.found, piece.own).sum()) for piece in place.pieces())
        wrong = f"{bad} of {output.numel()} elements outside 1e-2 absolute plus relative" if bad else ""
        return Comparison(reported, wrong, 0.0)
    times = error.times(budget)
    return Comparison(reported, _too_far(error, budget, rows) if times > 1.0 else "", times)


def _compare_exactly(output: torch.Tensor, native: torch.Tensor) -> Comparison:
    if native.dtype == torch.bool:  # as bytes: poison would count as true
        output, native = output.view(torch.uint8), native.view(torch.uint8)
    differing = int((output != native).sum())
    if not differing:
        return Comparison(OutputError(0.0, 0.0, 0.0, 0.0), "", 0.0)
    return _hopeless(1.0, f"{differing} of {output.numel()} {native.dtype} elements differ")


def _hopeless(error: float, wrong: str) -> Comparison:
    return Comparison(OutputError(error, error, 0.0, 0.0), wrong, math.inf)


def _too_far(error: Figures, budget: Figures, rows: Rows) -> str:
    if error.largest > budget.largest or error.rms > budget.rms:
        return (
            f"max error {error.largest:.3g} (allowed {budget.largest:.3g}), "
            f"rms error {error.rms:.3g} (allowed {budget.rms:.3g}), largest value {rows.scales().largest:.3g}"
        )
    return (
        f"in the worst rows (see row {rows.worst()}) rms error {error.row_rms:.3g} (allowed {budget.row_rms:.3g}), "
        f"{error.row_rms_share:.3g} of the row's rms (allowed {budget.row_rms_share:.3g}), largest error "
        f"{error.row_largest_share:.3g} of the row's largest value (allowed {budget.row_largest_share:.3g})"
    )


def _budget(place: _Place, rows: Rows) -> Figures:
    """What the errors may be: the reference's own, at any allowed precision, with their factors and the floor."""
    expected = place.expected
    ulp = torch.finfo(place.native.dtype).eps * (1.0 if expected.exact else _NO_FLOAT64_ULPS)
    floor = rows.scales() * _FLOOR_ULPS * Figures(*[ulp] * 5)
    times = _TIMES if place.count >= LEAST_ROW else replace(_TIMES, rms=_TIMES.largest)
    known = expected.known if rows.count == place.count else None
    own = [_own(answer, place, known) for answer in (expected.native, *expected.variants)]
    budget = most([most([*own, *expected.nearby[place.index : place.index + 1]]) * times, floor])
    return budget * Figures(*[expected.slack] * 5)


def _own(answer: list[torch.Tensor], place: _Place, known: Known | None) -> Figures:
    """The error of one of the reference's own answers; what is known of it holds where every element is a number."""

    def work_out() -> Figures:
        return place.figures_of(answer[place.index])

    return known.of(answer, place.index, work_out) if known is not None else work_out()


def _same_special(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Where both are NaN, or both the same infinity."""
    return ~torch.isfinite(other) & ((one == other) | (one.isnan() & other.isnan()))


def _far(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Where the published tolerance is exceeded."""
    return ~torch.isclose(one, other, _PAPER_TOLERANCE, _PAPER_TOLERANCE, equal_nan=True)


def _is_vacuous(native: torch.Tensor) -> bool:
    """Whether zeros would be within the published tolerance."""
    if not native.is_floating_point():
        return False
    return all(not bool(_far(torch.zeros_like(own), own).any()) for (own,) in in_pieces(native))


def _excess(error: OutputError) -> float:
    return max(times_over(error.max_abs, error.budget_max_abs), times_over(error.rms, error.budget_rms))
