"""Whether an output is right: the error budget against float64, and the published tolerance.

Knows the tensors of one call: the candidate's, the reference's own at the declared precision, and
the float64 answer. Does not know where they came from. The rule (`docs/concepts/correctness.md`):
NaN and infinities are exactly the reference's. Integers are those of one of its own answers, or differ in
no more elements than those answers do. The largest error is at most 3 times the
reference's own, the rms error at most 2 times. In the worst row it is at most 3 times that of its
worst row. The floor is a few units in the last place.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from pike.core.verdict.evaluation import OutputError, Tolerance
from pike.judge.correctness.rows import LEAST_ROW, Figures, Rows, in_pieces, most, real_shape, row_length, times_over

_TIMES = Figures(largest=3.0, rms=2.0, row_rms=3.0, row_largest_share=3.0, row_rms_share=3.0)
"""Factors on the reference's own errors. The worst of many rows is an extreme, like the largest
error, and so is the rms of fewer than `LEAST_ROW` elements. A factor of 2 on those would sometimes
refuse another order of summation (benchmarks/false_refusals.py)."""
_FLOOR_ULPS = Figures(largest=16.0, rms=4.0, row_rms=4.0, row_largest_share=16.0, row_rms_share=4.0)
_NARROW_FLOOR_ULPS = Figures(largest=4.0, rms=0.9, row_rms=3.0, row_largest_share=6.0, row_rms_share=3.0)
"""For types of at most 16 bits, whose units are wide: products of 8-bit integers err by 1 to 1.6 of bfloat16's
(docs/experiments/2026-11-25-cpu-floors-of-16-bit-types.md)."""
_NO_FLOAT64_TIMES, _NARROW_NO_FLOAT64_TIMES = 64.0, 4.0
"""How much wider the floor is without a float64 answer: reference and candidate then differ by both
their errors, and neither is known. Units of at most 16 bits leave no room for more."""
_PAPER_TOLERANCE = 1e-2
_UNSTEADY_TIMES, _UNSTEADY_SHARE = 4.0, 1e-3
"""How far the answers of one program may lie apart: times the floor, and the share of integers."""
_FEW_FLIPS = 1e-2
"""A share of integers that may differ for a closer look to be worth it."""
_LOOKS = ((4, 1e300), (12, 10.0))
"""Rounds of the closer look: how many neighbouring inputs, and how many times over its budget an
output may be to get that round."""

Leaves = list[torch.Tensor]
"""The output tensors of one call."""
Nearby = Callable[[], list[Leaves]]
"""Answers of the reference on inputs that were moved by a rounding error."""


class ReferenceErrors:
    """The errors of the reference's own answers, kept while many outputs are compared with them.

    Keeps native and reduced answers alive, because their ids are the keys. Of the answers on
    neighbouring inputs it keeps only the errors.
    """

    def __init__(self) -> None:
        self._figures: dict[tuple[int, int], tuple[Leaves, Figures]] = {}
        self._neighbours: list[tuple[Figures, ...]] = []

    def of(self, answer: Leaves, index: int, compute: Callable[[], Figures]) -> Figures:
        """The figures of one output of an answer, computed once."""
        if (id(answer), index) not in self._figures:
            self._figures[id(answer), index] = answer, compute()
        return self._figures[id(answer), index][1]

    def neighbour(self, number: int, compute: Callable[[], tuple[Figures, ...]]) -> tuple[Figures, ...]:
        """The figures on the neighbouring inputs of this number, computed once and in order."""
        if number == len(self._neighbours):
            self._neighbours.append(compute())
        return self._neighbours[number]


@dataclass(frozen=True, slots=True)
class Expected:
    """What one call must return.

    Attributes:
        answers: per output, the float64 answer, or the native one without float64.
        native: per output, what the reference itself returned in its own precision.
        variants: per allowed reduced precision, the reference's outputs in it.
        exact: whether `answers` are float64 answers.
        slack: how many times wider than usual the budget is.
        known: keeps figures of the reference's own answers for all comparisons, if given.
        nearby: per output, the reference's largest errors on neighbouring inputs; may be empty.
        looks: how many neighbouring inputs those are.
        flips: per output, what the neighbours showed of integers; may be empty.
        unsteady: per output, in how many integers answers on the task's inputs differ; may be empty.
    """

    answers: Leaves
    native: Leaves
    variants: list[Leaves]
    exact: bool
    slack: float = 1.0
    known: ReferenceErrors | None = None
    nearby: tuple[Figures, ...] = ()
    looks: int = 0
    flips: tuple["_Flips | None", ...] = ()
    unsteady: tuple[int, ...] = ()

    def fitting(self, outputs: Leaves) -> "Expected":
        """The same, from those of the reference's own answers that have the shapes of `outputs`.

        They differ only where shapes depend on values, and a rounding error decides about a length.
        """
        shapes = [output.shape for output in outputs]
        several = (self.native, self.answers, *self.variants)
        fit = [answer for answer in several if [one.shape for one in answer] == shapes]
        if not fit or len(fit) == len(several):
            return self
        exact = self.exact and any(answer is self.answers for answer in fit)
        native = [one.to(own.dtype) for one, own in zip(fit[0], self.native, strict=True)]
        variants = [answer for answer in self.variants if any(answer is one for one in fit)]
        return replace(self, native=native, answers=self.answers if exact else native, variants=variants, exact=exact)


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """The result for one call.

    Attributes:
        error: the worst output's figures.
        wrong: what is wrong, in words; empty when right.
        times: the worst figure over its budget; infinite if no budget could make it right.
    """

    error: OutputError
    wrong: str
    times: float


def compare(outputs: Leaves, expected: Expected, tolerance: Tolerance) -> OutputComparison:
    """Judge all outputs of one call; the strict figures are reported under both tolerances."""
    expected = expected.fitting(outputs)
    found = [_compare_one(output, expected, index, tolerance) for index, output in enumerate(outputs)]
    worst: OutputError | None = None
    for one in found:
        worst = worse(worst, one.error)
    vacuous = bool(outputs) and all(_is_vacuous(native) for native in expected.native)
    error = replace(worst or OutputError(0.0, 0.0, 0.0, 0.0), vacuous=vacuous)
    problems = [f"output {index}: {one.wrong}" for index, one in enumerate(found) if one.wrong]
    return OutputComparison(error, "; ".join(problems), max((one.times for one in found), default=0.0))


def compare_closely(outputs: Leaves, expected: Expected, tolerance: Tolerance, nearby: Nearby) -> OutputComparison:
    """`compare`, with a closer look at the reference's own error before an output is refused.

    One answer of the reference may be right by luck. A scalar has a single rounding error, and the
    variance of equal numbers is exactly zero. On inputs that differ by a unit in the last place the
    reference is not lucky again.

    Args:
        outputs, expected, tolerance: those of `compare`.
        nearby: returns the reference's answers on new neighbouring inputs, at each allowed
            precision.
    """
    found = compare(outputs, expected, tolerance)
    expected = expected.fitting(outputs)
    if not _same_shapes(outputs, expected.native):
        return _compare_elsewhere(outputs, expected, tolerance, nearby)
    for looks, hopeless in _LOOKS:
        if not found.wrong or found.times > hopeless or tolerance is Tolerance.PAPER:
            return found
        expected = _looked_around(outputs, expected, looks, nearby)
        found = compare(outputs, expected, tolerance)
    return found


def repeats(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two answers of one program to the same question are one answer.

    Sums in another order (atomic additions on a GPU) may round differently.
    """
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not is_real(one):
        return int((one != other).sum()) <= _UNSTEADY_SHARE * one.numel()
    expected = Expected([other], [other], [], True, slack=1.0 if _is_narrow(one.dtype) else _UNSTEADY_TIMES)
    return not compare([one], expected, Tolerance.STRICT).wrong


def _compare_elsewhere(outputs: Leaves, expected: Expected, tolerance: Tolerance, nearby: Nearby) -> OutputComparison:
    """Outputs of other shapes than the reference's; right if they answer a neighbouring input."""
    for _ in range(sum(looks for looks, _ in _LOOKS)):
        for answer in nearby():
            if _same_shapes(outputs, answer):
                near = Expected(answer, expected.native, [], False, expected.slack).fitting(outputs)
                if not (found := compare(outputs, near, tolerance)).wrong:
                    return found
    return compare(outputs, expected, tolerance)


def _looked_around(outputs: Leaves, expected: Expected, looks: int, nearby: Nearby) -> Expected:
    """`expected` with the errors on so many more neighbouring inputs, one at a time in memory."""
    comparisons = [_ComparedOutput(output, expected, index) for index, output in enumerate(outputs)]
    flips = [None if is_real(one.native) else _flips(one.output, expected, one.index) for one in comparisons]
    known = expected.known
    if known is not None and not all(is_real(one.native) and one.is_numeric() for one in comparisons):
        known = None  # its figures are of all elements

    def compute() -> tuple[Figures, ...]:
        answers = [answer for answer in nearby() if _same_shapes(answer, expected.native)]
        for one in comparisons:
            for answer in answers:
                if (found := flips[one.index]) is not None:
                    flips[one.index] = found.beside(one.output, one.native, answer[one.index])
        return tuple(
            most([Figures(), *(one.figures_of(answer[one.index]) for answer in answers if is_real(one.native))])
            for one in comparisons
        )

    widest = expected.nearby or tuple(Figures() for _ in outputs)
    for number in range(expected.looks, expected.looks + looks):
        found = known.neighbour(number, compute) if known is not None else compute()
        widest = tuple(most(pair) for pair in zip(widest, found, strict=True))
    return replace(expected, nearby=widest, looks=expected.looks + looks, flips=tuple(flips))


def worse(one: OutputError | None, other: OutputError) -> OutputError:
    """The error with the larger share of its budget."""
    return other if one is None or _excess(other) > _excess(one) else one


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some rows of one output, flat and in float64.

    Attributes:
        found: the candidate's values.
        own: the reference's own values.
        truth: the right values; the reference's own where only float64 has no number.
        numeric: where the values are compared as numbers.
        extra: the same elements of further tensors.
    """

    found: torch.Tensor
    own: torch.Tensor
    truth: torch.Tensor
    numeric: torch.Tensor
    extra: tuple[torch.Tensor, ...]

    def misplaced(self) -> torch.Tensor:
        """How many elements are NaN or infinite in other places than the reference's."""
        special = _same_special(self.found, self.own) | _same_special(self.found, self.truth)
        return (~self.numeric & ~special | self.numeric & ~torch.isfinite(self.found)).sum()


@dataclass(frozen=True, slots=True)
class _ComparedOutput:
    """One output beside the right answer, compared in pieces."""

    output: torch.Tensor
    expected: Expected
    index: int

    @property
    def native(self) -> torch.Tensor:
        """The reference's own output."""
        return self.expected.native[self.index]

    def pieces(self, *extra: torch.Tensor) -> Iterator[_Piece]:
        """The whole output in pieces, with further tensors of the same shape."""
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
        """Whether every element is compared as a number."""
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
        """The errors of a reference's answer, over the elements that count for this output."""
        rows = self._no_rows()
        for piece in self.pieces(answer):
            (one,) = piece.extra
            rows.add(one, piece.truth, piece.numeric & torch.isfinite(one))
        return rows.figures()

    def _no_rows(self) -> Rows:
        return Rows(row_length(real_shape(self.native)))


def _compare_one(output: torch.Tensor, expected: Expected, index: int, tolerance: Tolerance) -> OutputComparison:
    native = expected.native[index]
    if output.shape != native.shape:
        return _hopeless(math.inf, f"it has shape {list(output.shape)}, expected {list(native.shape)}")
    if not is_real(native):
        return _compare_exactly(output, expected, index)
    compared = _ComparedOutput(output, expected, index)
    rows, misplaced = compared.rows()
    if misplaced:
        return _hopeless(math.inf, f"NaN or infinity in {misplaced} wrong places")
    error, budget = rows.figures(), _budget(compared, rows)
    reported = OutputError(error.largest, error.rms, budget.largest, budget.rms)
    if tolerance is Tolerance.PAPER:
        bad = sum(int(_far(piece.found, piece.own).sum()) for piece in compared.pieces())
        wrong = f"{bad} of {output.numel()} elements outside 1e-2 absolute plus relative" if bad else ""
        return OutputComparison(reported, wrong, 0.0)
    times = error.times(budget)
    return OutputComparison(reported, _too_far(error, budget, rows) if times > 1.0 else "", times)


@dataclass(frozen=True, slots=True)
class _Flips:
    """Where an output of integers or booleans is unlike all of the reference's own answers.

    Attributes:
        unlike: those elements.
        most: in how many elements one of the reference's answers differs from the first.
    """

    unlike: torch.Tensor
    most: int = 0

    def beside(self, output: torch.Tensor, native: torch.Tensor, own: torch.Tensor) -> "_Flips":
        """The same with one more answer of the reference."""
        return _Flips(self.unlike & (output != own), max(self.most, int((native != own).sum())))


def _flips(output: torch.Tensor, expected: Expected, index: int) -> _Flips:
    if expected.flips and (found := expected.flips[index]) is not None:
        return found
    native = expected.native[index]
    flips = _Flips(output != native, expected.unsteady[index] if expected.unsteady else 0)
    for answer in (expected.answers, *expected.variants):
        if answer[index].shape == native.shape:
            flips = flips.beside(output, native, answer[index])
    return flips


def _compare_exactly(output: torch.Tensor, expected: Expected, index: int) -> OutputComparison:
    native, count = expected.native[index], output.numel()
    if native.dtype == torch.bool and bool((output.view(torch.uint8) > 1).any()):  # poison would count as true
        return _hopeless(1.0, "its bytes are no booleans")
    flips = _flips(output, expected, index)
    differing = int(flips.unlike.sum())
    if differing <= flips.most:
        return OutputComparison(OutputError(0.0, 0.0, 0.0, 0.0), "", 0.0)
    words = f"{differing} of {count} {native.dtype} elements differ"
    times = differing / max(flips.most, _FEW_FLIPS * count, 1.0)
    hopeless = _hopeless(1.0, f"{words} (allowed {flips.most})")
    return hopeless if differing > max(count / 2, LEAST_ROW) else replace(hopeless, times=max(times, 1.01))


def _hopeless(error: float, wrong: str) -> OutputComparison:
    return OutputComparison(OutputError(error, error, 0.0, 0.0), wrong, math.inf)


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


def _budget(compared: _ComparedOutput, rows: Rows) -> Figures:
    """The allowed errors: the reference's own times the factors, but at least the floor."""
    expected = compared.expected
    dtype = compared.native.dtype
    floors, wider = (
        (_NARROW_FLOOR_ULPS, _NARROW_NO_FLOAT64_TIMES) if _is_narrow(dtype) else (_FLOOR_ULPS, _NO_FLOAT64_TIMES)
    )
    floor = rows.scales() * floors * Figures(*[torch.finfo(dtype).eps * (1.0 if expected.exact else wider)] * 5)
    times = _TIMES if compared.count >= LEAST_ROW else replace(_TIMES, rms=_TIMES.largest)
    known = expected.known if rows.count == compared.count else None
    own = [_own(answer, compared, known) for answer in (expected.native, *expected.variants)]
    budget = most([most([*own, *expected.nearby[compared.index : compared.index + 1]]) * times, floor])
    return budget * Figures(*[expected.slack] * 5)


def _own(answer: Leaves, compared: _ComparedOutput, known: ReferenceErrors | None) -> Figures:
    """The error of a reference's answer; kept figures hold only if all elements count."""

    def compute() -> Figures:
        return compared.figures_of(answer[compared.index])

    return known.of(answer, compared.index, compute) if known is not None else compute()


def _is_narrow(dtype: torch.dtype) -> bool:
    """Whether numbers of this type have at most 16 bits."""
    return dtype.itemsize <= 2


def is_real(tensor: torch.Tensor) -> bool:
    """Whether it holds numbers that round; integers and booleans do not."""
    return tensor.is_floating_point() or tensor.is_complex()


def _same_shapes(some: Leaves, others: Leaves) -> bool:
    return [one.shape for one in some] == [one.shape for one in others]


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
