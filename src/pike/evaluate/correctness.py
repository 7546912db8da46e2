"""Is an output right: the error budget against a high-precision reference, and the published tolerance beside it.

Knows tensors of one call: the candidate's, the reference's own at the declared precision, and the float64 answer.
Does not know where they came from. The rule (docs/evaluator.md): NaN and infinities exactly where the reference has
them; integers exact; largest error at most 3 times, rms error at most 2 times what the reference itself makes at the
declared precision; in the worst row at most 3 times its worst row; with a floor of a few units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from pike.core.evaluation import OutputError, Tolerance
from pike.evaluate.rows import LEAST_ROW, Figures, measure, most, scales, times_over, worst_row

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
    """The error of each of the reference's own answers, kept while many outputs are compared with the same ones.

    It keeps the answers alive too, so that none is taken for another that lies where it lay.
    """

    def __init__(self) -> None:
        self._figures: dict[tuple[int, int], tuple[list[torch.Tensor], Figures]] = {}

    def of(self, answer: list[torch.Tensor], index: int, work_out: Callable[[], Figures]) -> Figures:
        """The figures of one output of an answer, worked out once."""
        if (id(answer), index) not in self._figures:
            self._figures[id(answer), index] = answer, work_out()
        return self._figures[id(answer), index][1]


@dataclass(frozen=True, slots=True)
class Expected:
    """What one call must return.

    Attributes:
        answers: per output, the float64 answer (or the native one where float64 could not be had).
        native: per output, what the reference itself returned in its own precision.
        variants: per allowed reduced precision, what the reference returned in it.
        exact: whether `answers` are float64 answers.
        slack: how many times wider than usual the budget is.
        known: where given, figures of `native` and `variants` are worked out once for all comparisons.
        nearby: per output, the largest errors that the reference makes on neighbouring inputs; empty where nobody
            looked.
    """

    answers: list[torch.Tensor]
    native: list[torch.Tensor]
    variants: list[list[torch.Tensor]]
    exact: bool
    slack: float = 1.0
    known: Known | None = None
    nearby: tuple[Figures, ...] = ()


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
    places = [_place(output, expected, index)[1:] for index, output in enumerate(outputs)]
    widest = list(expected.nearby or [Figures()] * len(outputs))
    for _ in range(looks):
        for answer in nearby():
            for index, (truth, numeric) in enumerate(places):
                widest[index] = most([widest[index], _figures(answer, truth, numeric, expected.known, index)])
    return replace(expected, nearby=tuple(widest))


def worse(one: OutputError | None, other: OutputError) -> OutputError:
    """The one that lies further beyond (or nearer to) its budget."""
    return other if one is None or _excess(other) > _excess(one) else one


def _compare_one(output: torch.Tensor, expected: Expected, index: int, tolerance: Tolerance) -> Comparison:
    native = expected.native[index]
    if not (native.is_floating_point() or native.is_complex()):
        return _compare_exactly(output, native)
    found, truth, numeric = _place(output, expected, index)
    own = as_float64(native)
    elsewhere = ~numeric & ~_same_special(found, own) & ~_same_special(found, truth)
    if count := int((elsewhere | numeric & ~torch.isfinite(found)).sum()):
        return _hopeless(math.inf, f"NaN or infinity in {count} wrong places")
    error, budget = measure(found, truth, numeric), _budget(truth, numeric, expected, index)
    reported = OutputError(error.largest, error.rms, budget.largest, budget.rms)
    if tolerance is Tolerance.PAPER:
        close = torch.isclose(found, own, _PAPER_TOLERANCE, _PAPER_TOLERANCE, equal_nan=True)
        bad = int((~close).sum())
        wrong = f"{bad} of {output.numel()} elements outside 1e-2 absolute plus relative" if bad else ""
        return Comparison(reported, wrong, 0.0)
    times = error.times(budget)
    return Comparison(reported, _too_far(error, budget, found, truth, numeric) if times > 1.0 else "", times)


def _compare_exactly(output: torch.Tensor, native: torch.Tensor) -> Comparison:
    if native.dtype == torch.bool:  # as bytes: poison would count as true
        output, native = output.view(torch.uint8), native.view(torch.uint8)
    differing = int((output != native).sum())
    if not differing:
        return Comparison(OutputError(0.0, 0.0, 0.0, 0.0), "", 0.0)
    return _hopeless(1.0, f"{differing} of {output.numel()} {native.dtype} elements differ")


def _hopeless(error: float, wrong: str) -> Comparison:
    return Comparison(OutputError(error, error, 0.0, 0.0), wrong, math.inf)


def _too_far(error: Figures, budget: Figures, found: torch.Tensor, truth: torch.Tensor, numeric: torch.Tensor) -> str:
    if error.largest > budget.largest or error.rms > budget.rms:
        scale = float(truth[numeric].abs().max())
        return (
            f"max error {error.largest:.3g} (allowed {budget.largest:.3g}), "
            f"rms error {error.rms:.3g} (allowed {budget.rms:.3g}), largest value {scale:.3g}"
        )
    row = worst_row(found, truth, numeric)
    return (
        f"in the worst rows (see row {row}) rms error {error.row_rms:.3g} (allowed {budget.row_rms:.3g}), "
        f"{error.row_rms_share:.3g} of the row's rms (allowed {budget.row_rms_share:.3g}), largest error "
        f"{error.row_largest_share:.3g} of the row's largest value (allowed {budget.row_largest_share:.3g})"
    )


def _budget(truth: torch.Tensor, numeric: torch.Tensor, expected: Expected, index: int) -> Figures:
    ulp = torch.finfo(expected.native[index].dtype).eps * (1.0 if expected.exact else _NO_FLOAT64_ULPS)
    floor = scales(truth, numeric) * _FLOOR_ULPS * Figures(*[ulp] * 5)
    times = _TIMES if truth.numel() >= LEAST_ROW else replace(_TIMES, rms=_TIMES.largest)
    budget = most([_own(truth, numeric, expected, index) * times, floor])
    return budget * Figures(*[expected.slack] * 5)


def _own(truth: torch.Tensor, numeric: torch.Tensor, expected: Expected, index: int) -> Figures:
    """The largest error that the reference itself makes, at any allowed precision."""

    allowed = (expected.native, *expected.variants)
    found = [_figures(answer, truth, numeric, expected.known, index) for answer in allowed]
    return most([*found, *expected.nearby[index : index + 1]])


def _figures(
    answer: list[torch.Tensor], truth: torch.Tensor, numeric: torch.Tensor, known: Known | None, index: int
) -> Figures:
    """The error of one of the reference's own answers, in one output."""

    def work_out() -> Figures:
        one = as_float64(answer[index])
        return measure(one, truth, numeric & torch.isfinite(one))

    return known.of(answer, index, work_out) if known is not None and bool(numeric.all()) else work_out()


def _place(output: torch.Tensor, expected: Expected, index: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The output and what is right in float64, and where both are to be compared as numbers."""
    found, own = as_float64(output), as_float64(expected.native[index])
    truth, numeric = _truth(_answer(expected, index), own)
    return found, truth, numeric & ~_same_special(found, own)


def _truth(answer: torch.Tensor, native: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What is right, and where it is a number; where float64 alone has none, the reference's own value stands in."""
    truth = torch.where(torch.isfinite(answer) | ~torch.isfinite(native), answer, native)
    return truth, torch.isfinite(truth)


def _same_special(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Where both are NaN, or both the same infinity."""
    return ~torch.isfinite(other) & ((one == other) | (one.isnan() & other.isnan()))


def _is_vacuous(native: torch.Tensor) -> bool:
    if not native.is_floating_point():
        return False
    native = native.double()
    return bool(torch.isclose(torch.zeros_like(native), native, _PAPER_TOLERANCE, _PAPER_TOLERANCE).all())


def _answer(expected: Expected, index: int) -> torch.Tensor:
    answer, native = expected.answers[index], expected.native[index]
    return as_float64(answer if answer.is_complex() == native.is_complex() else native)


def as_float64(tensor: torch.Tensor) -> torch.Tensor:
    """Any real or complex tensor in float64; a complex number becomes two neighbours in its row."""
    if not tensor.is_complex():
        return tensor.double()
    parts = torch.view_as_real(tensor.to(torch.complex128))
    return parts.reshape(*tensor.shape[:-1], 2 * tensor.shape[-1]) if tensor.dim() else parts


def _excess(error: OutputError) -> float:
    return max(times_over(error.max_abs, error.budget_max_abs), times_over(error.rms, error.budget_rms))
