"""What the numbers of the configuration can be.

Knows the least and the most of each setting that has them. Does not know where values come from.
"""

import math
from typing import Any

from pike.core.errors import UserError

_INF = math.inf
_FROM_0 = """budget.queries budget.usd budget.tokens campaign.queries campaign.usd engine.judges
engine.recipe_seeds evaluate.memory_bytes evaluate.threads prompt.most_tokens"""
_FROM_1 = """campaign.concurrency campaign.repeats engine.concurrency engine.finalists evaluate.correctness_seeds
evaluate.max_processes llm.max_attempts llm.max_output_tokens llm.top_k"""
_SECONDS = "evaluate.max_timing_seconds evaluate.timeout_seconds llm.timeout_seconds"
BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(_FROM_0.split(), (0, _INF)),
    **dict.fromkeys(_FROM_1.split(), (1, _INF)),
    **dict.fromkeys(_SECONDS.split(), (0.001, 1e6)),
    **dict.fromkeys(("campaign.max_hours", "engine.max_hours"), (0, 1e6)),
    "llm.top_p": (0, 1),
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
