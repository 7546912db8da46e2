"""The budget of TF32: what a candidate may round, wherever the reference's libraries round nothing."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from pike.core.verdict.evaluation import Precision, Tolerance
from pike.judge.correctness.compare import compare
from pike.judge.reference.answers import Answers
from pike.judge.reference.forward import Trial
from pike.judge.reference.reference import Inputs
from pike.judge.reference.tf32 import NEAREST, TOWARDS_ZERO, everywhere, rounded


class Net(nn.Module):
    """A convolution of three channels, for which no library has TF32, and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.last = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x)).flatten(2).transpose(1, 2))


def judged(precision: Precision, narrow: torch.dtype | None, how: int = NEAREST) -> str:
    """Why a candidate is refused that rounds its operands to TF32, or all it has to a type."""
    torch.manual_seed(0)
    model, inputs = Net().eval(), Inputs((torch.randn(4, 3, 16, 16),), {})
    with torch.no_grad():
        answers = Answers(model, precision, Trial(torch.device("cpu"), inputs))
        expected = answers.expected(inputs, lambda: [model(*inputs.args)])
        if narrow is None:
            outputs = everywhere(lambda given: [model(given.args[0])], how)(inputs)
        else:
            outputs = [model.to(narrow)(inputs.args[0].to(narrow)).float()]
    return compare(outputs, expected, Tolerance.STRICT).wrong


@pytest.mark.parametrize(
    ("precision", "narrow", "right"),
    [
        (Precision.TF32, None, True),
        (Precision.SAME, None, False),
        (Precision.TF32, torch.bfloat16, False),
        (Precision.HALF, torch.bfloat16, True),
    ],
)
def test_operands_of_tf32_are_right_where_they_are_declared(
    precision: Precision, narrow: torch.dtype | None, right: bool
) -> None:
    assert (not judged(precision, narrow)) == right


def test_bits_that_a_tensor_core_does_not_read_are_no_fault_of_a_candidate() -> None:
    """Seen on H200s: `tl.dot` of float32 behind a ReLU, whose errors all have one sign and do not cancel."""
    assert judged(Precision.TF32, None, TOWARDS_ZERO) == ""


def test_numbers_are_rounded_to_ten_bits() -> None:
    half = 2.0**-11  # half a unit in the last place of 1
    numbers = torch.tensor([1.0, 1 + half, 1 + 0.9 * half, -1 - 3 * half, math.inf, -math.inf, math.nan, 0.0])
    expected = torch.tensor([1.0, 1 + 2 * half, 1.0, -1 - 4 * half, math.inf, -math.inf, math.nan, 0.0])
    assert torch.equal(rounded(numbers).nan_to_num(7.0), expected.nan_to_num(7.0))
    assert torch.equal(rounded(numbers[:4], TOWARDS_ZERO), torch.tensor([1.0, 1.0, 1.0, -1 - 2 * half]))
    wide = torch.randn(3, dtype=torch.float64)
    assert rounded(wide) is wide


def test_what_is_added_to_a_product_is_not_rounded() -> None:
    bias, a, b = torch.randn(5), torch.randn(4, 3), torch.randn(3, 5)
    (found,) = everywhere(lambda _: [torch.addmm(bias, a, b)])(Inputs((), {}))
    assert torch.equal(found, torch.addmm(bias, rounded(a), rounded(b)))
