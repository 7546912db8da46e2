"""Words and ranges of option values.

Knows how a value outside its range is refused. Does not know any option.
"""

import math
from enum import StrEnum
from typing import Any

from pike.core.errors import UserError


class Choice(StrEnum):
    """A closed set of option values whose refusal lists them."""

    @classmethod
    def _missing_(cls, _value: object) -> Any:
        raise ValueError("choose " + " or ".join(repr(member.value) for member in cls))


def at_least(where: str, options: Any, **limits: int) -> None:
    """Refuse the first value of `options` that is below its limit.

    Raises:
        UserError: a value is too small.
    """
    for name, least in limits.items():
        value = getattr(options, name)
        if value < least:
            raise UserError(f"Setting '{where}.{name}' must be at least {least}, not {value}")


def between_0_and(where: str, options: Any, **limits: float) -> None:
    """Refuse the first value of `options` that is negative, not finite or above its limit.

    Raises:
        UserError: a value is out of its range.
    """
    for name, most in limits.items():
        value = getattr(options, name)
        if not (math.isfinite(value) and 0.0 <= value <= most):
            raise UserError(f"Setting '{where}.{name}' must be between 0 and {most:g}, not {value}")
