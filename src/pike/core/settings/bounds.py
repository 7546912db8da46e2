"""What the numbers of the configuration can be.

Knows the least and the most of each setting that has them. Does not know where values come from.
"""

import math
from typing import Any

from pike.core.errors import UserError

_INF = math.inf
_SECONDS = (0.001, 1e6)
BOUNDS: dict[str, tuple[float, float]] = {
    "llm.top_p": (0, 1),
    "llm.top_k": (1, _INF),
    "llm.timeout_seconds": _SECONDS,
    "llm.max_output_tokens": (1, _INF),
    "llm.max_attempts": (1, _INF),
    "budget.queries": (0, _INF),
    "budget.usd": (0, _INF),
    "budget.tokens": (0, _INF),
    "evaluate.timeout_seconds": _SECONDS,
    "evaluate.memory_bytes": (0, _INF),
    "evaluate.max_processes": (1, _INF),
    "evaluate.threads": (0, _INF),
    "evaluate.correctness_seeds": (1, _INF),
    "evaluate.max_timing_seconds": _SECONDS,
    "engine.concurrency": (1, _INF),
    "engine.judges": (0, _INF),
    "engine.finalists": (1, _INF),
    "engine.max_hours": (0, 1e6),
    "prompt.most_tokens": (0, _INF),
    "campaign.repeats": (1, _INF),
    "campaign.concurrency": (1, _INF),
    "campaign.usd": (0, _INF),
    "campaign.queries": (0, _INF),
    "campaign.max_hours": (0, 1e6),
}
"""The least and the most of settings by their places; the others can be any number that is finite."""


def check(place: str, value: Any) -> None:
    """Refuse a number, or a tuple with one, that its setting cannot have.

    Raises:
        UserError: naming the setting, the value and the bounds.
    """
    least, most = BOUNDS.get(place, (-_INF, _INF))
    for one in value if isinstance(value, tuple) else (value,):
        if isinstance(one, int | float) and not (abs(one) < _INF and least <= one <= most):
            bounds = "a finite number" if least == -_INF else f"at least {least:g}"
            bounds = bounds if most == _INF else f"between {least:g} and {most:,.9g}"
            raise UserError(f"Setting '{place}' must be {bounds}, not {one}")
