"""Figures read the same everywhere: terminal, page and candidate headers."""

from __future__ import annotations

import pytest

from pike.core import figures


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0123, "0.0123 ms"),
        (4.5678, "4.57 ms"),
        (45.678, "45.7 ms"),
        (456.78, "457 ms"),
        (1234.5, "1,234 ms"),
    ],
)
def test_milliseconds_have_three_digits(value: float | None, text: str) -> None:
    assert figures.ms(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "$0.00"), (0.0123, "$0.0123"), (12.345, "$12.35"), (None, "–")])
def test_money_below_a_dollar_keeps_its_cents(value: float | None, text: str) -> None:
    assert figures.usd(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.23, "4.2 s"), (59.97, "1 min 00 s"), (192, "3 min 12 s"), (7500, "2 h 05 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert figures.duration(seconds) == text


def test_counting_words() -> None:
    assert figures.plural(1, "query") == "1 query"
    assert figures.plural(0, "query") == "0 queries"
    assert figures.plural(1234, "call") == "1,234 calls"


def test_an_exact_answer_has_no_exponent() -> None:
    assert figures.error(0.0) == "0"
    assert figures.error(1.234e-6) == "1.2e-06"
