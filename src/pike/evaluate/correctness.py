"""Is an output right: the error budget against a high-precision reference, and the published tolerance beside it.

Knows tensors of one call: the candidate's, the reference's own at the declared precision, and the float64 answer.
Does not know where they came from. The rule (facts/evaluator.md, section 3): NaN and infinities exactly where the
reference has them; integers exact; largest error at most 3 times, rms error at most 2 times what the reference
itself makes at the declared precision, with a floor of a few units in the last place at the output's own scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from pike.core.evaluation import OutputError, Tolerance

_MAX_TIMES, _RMS_TIMES = 3.0, 2.0
_MAX_FLOOR_ULPS, _RMS_FLOOR_ULPS = 16.0, 4.0
_NO_FLOAT64_ULPS = 64.0
"""How much wider the floor is where no float64 answer exists: eager and candidate then differ from each other by both
their errors, of which neither is known."""
_PAPER_TOLERANCE = 1e-2


@dataclass(frozen=True, slots=True)
class Expected:
    """What one call must return.

    Attributes:
        answers: per output, the float64 answer (or the native one where float64 could not be had).
        native: per output, what the reference itself returned in its own precision.
        variants: per allowed reduced precision, what the reference returned in it.
        exact: whether `answers` are float64 answers.
    """

    answers: list[torch.Tensor]
    native: list[torch.Tensor]
    variants: list[list[torch.Tensor]]
    exact: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result for one call: the worst output's figures, and what is wrong in words (empty when right)."""

    error: OutputError
    wrong: str


def compare(outputs: list[torch.Tensor], expected: Expected, tolerance: Tolerance) -> Comparison:
    """Judge all outputs of one call under `tolerance`; the strict figures are reported under both."""
    worst: OutputError | None = None
    problems = []
    for index, output in enumerate(outputs):
        error, wrong = _compare_one(output, expected, index, tolerance)
        if wrong:
            problems.append(f"output {index}: {wrong}")
        if worst is None or _excess(error) > _excess(worst):
            worst = error
    vacuous = bool(outputs) and all(_is_vacuous(native) for native in expected.native)
    found = worst or OutputError(0.0, 0.0, 0.0, 0.0)
    return Comparison(
        OutputError(found.max_abs, found.rms, found.budget_max_abs, found.budget_rms, vacuous), "; ".join(problems)
    )


def worse(one: OutputError | None, other: OutputError) -> OutputError:
    """The one that lies further beyond (or nearer to) its budget."""
    return other if one is None or _excess(other) > _excess(one) else one


def _compare_one(output: torch.Tensor, expected: Expected, index: int, tolerance: Tolerance) -> tuple[OutputError, str]:
    answer, native = expected.answers[index], expected.native[index]
    if not (native.is_floating_point() or native.is_complex()):
        differing = int((output != native).sum())
        error = OutputError(float(differing > 0), float(differing > 0), 0.0, 0.0)
        return error, f"{differing} of {output.numel()} {native.dtype} elements differ" if differing else ""
    output, answer, native = _real(output), _real(answer), _real(native)
    finite = torch.isfinite(answer)
    if not _same_specials(output, answer, finite):
        count = int((torch.isfinite(output) != finite).sum())
        return OutputError(math.inf, math.inf, 0.0, 0.0), f"NaN or infinity in {count} wrong places"
    largest, rms = _distance(output, answer, finite)
    budget_max, budget_rms = _budget(answer, finite, [native, *(_real(v[index]) for v in expected.variants)], expected)
    error = OutputError(largest, rms, budget_max, budget_rms)
    if tolerance is Tolerance.PAPER:
        close = torch.isclose(output.double(), native.double(), _PAPER_TOLERANCE, _PAPER_TOLERANCE, equal_nan=True)
        bad = int((~close).sum())
        return error, f"{bad} of {output.numel()} elements outside 1e-2 absolute plus relative" if bad else ""
    if largest <= budget_max and rms <= budget_rms:
        return error, ""
    scale = float(answer[finite].abs().max()) if bool(finite.any()) else 0.0
    return error, (
        f"max error {largest:.3g} (allowed {budget_max:.3g}), rms error {rms:.3g} (allowed {budget_rms:.3g}), "
        f"largest value {scale:.3g}"
    )


def _budget(
    answer: torch.Tensor, finite: torch.Tensor, allowed: list[torch.Tensor], expected: Expected
) -> tuple[float, float]:
    own = [_distance(variant, answer, finite & torch.isfinite(variant)) for variant in allowed]
    values = answer[finite].double()
    scale = float(values.abs().max()) if values.numel() else 0.0
    typical = float(values.square().mean().sqrt()) if values.numel() else 0.0
    ulp = torch.finfo(allowed[0].dtype).eps * (1.0 if expected.exact else _NO_FLOAT64_ULPS)
    return (
        max(_MAX_TIMES * max(largest for largest, _ in own), _MAX_FLOOR_ULPS * ulp * scale),
        max(_RMS_TIMES * max(rms for _, rms in own), _RMS_FLOOR_ULPS * ulp * typical),
    )


def _distance(one: torch.Tensor, other: torch.Tensor, where: torch.Tensor) -> tuple[float, float]:
    difference = (one.double() - other.double())[where].abs()
    if not difference.numel():
        return 0.0, 0.0
    return float(difference.max()), float(difference.square().mean().sqrt())


def _same_specials(output: torch.Tensor, answer: torch.Tensor, finite: torch.Tensor) -> bool:
    if not torch.equal(torch.isfinite(output), finite):
        return False
    if bool(finite.all()):
        return True
    ours, theirs = output[~finite].double(), answer[~finite].double()
    return bool(((ours == theirs) | (ours.isnan() & theirs.isnan())).all())


def _is_vacuous(native: torch.Tensor) -> bool:
    if not native.is_floating_point():
        return False
    return bool(torch.isclose(torch.zeros_like(native), native, _PAPER_TOLERANCE, _PAPER_TOLERANCE).all())


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _excess(error: OutputError) -> float:
    def over(value: float, budget: float) -> float:
        return value / budget if budget else (math.inf if value else 0.0)

    return max(over(error.max_abs, error.budget_max_abs), over(error.rms, error.budget_rms))
