"""The records of a script and the choice of an answer.

Knows which answer fits a query. Does not know files or clients (`scripted`).
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from pike.core.query import Finish

_ROLES = ("", "iba", "coa", "efa")
_FAULTS = ("timeout", "dropped")


@dataclass(frozen=True, slots=True)
class Line:
    """One answer of a script; the fields are explained in `pike.llm.scripted`."""

    role: str = ""
    contains: str = ""
    regex: str = ""
    step: int | None = None
    text: str = ""
    finish: Finish = Finish.STOP
    input_tokens: int | None = None
    output_tokens: int | None = None
    thinking_tokens: int = 0
    usd: float | None = None
    delay_seconds: float = 0.0
    errors: tuple[int | str, ...] = ()
    retry_after_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.role not in _ROLES:
            raise ValueError(f"role {self.role!r} is none of iba, coa, efa")
        for error in self.errors:
            if error not in _FAULTS and not (isinstance(error, int) and 400 <= error <= 599):
                raise ValueError(f"error {error!r} is no HTTP status from 400 to 599, 'timeout' or 'dropped'")
        try:
            re.compile(self.regex)
        except re.error as error:
            raise ValueError(f"regex {self.regex!r}: {error}") from None

    @property
    def specificity(self) -> int:
        """4 for a step, 2 for a condition on the prompt and 1 for a role, added up."""
        return 4 * (self.step is not None) + 2 * bool(self.contains or self.regex) + bool(self.role)

    def fits(self, role: str, step_id: int, prompt: str) -> bool:
        """Whether this answer may be given to that query."""
        return (
            self.role in ("", role)
            and self.step in (None, step_id)
            and self.contains in prompt
            and (not self.regex or re.search(self.regex, prompt) is not None)
        )


@dataclass(frozen=True, slots=True)
class Script:
    """A whole script; the fields are explained in `pike.llm.scripted`."""

    model: str = "scripted"
    input_usd_per_mtok: float = 0.0
    output_usd_per_mtok: float = 0.0
    unpriced: bool = False
    lines: tuple[Line, ...] = ()

    @property
    def priced(self) -> bool:
        """Whether a price is stated for every answer."""
        return self.input_usd_per_mtok > 0 or self.output_usd_per_mtok > 0

    def with_lines(self, lines: tuple[Line, ...]) -> Script:
        """A copy with these answers."""
        return dataclasses.replace(self, lines=lines)

    def pick(self, role: str, step_id: int, prompt: str) -> Line | None:
        """The answer for a query, a pure function of its arguments; None when none fits."""
        fitting = [line for line in self.lines if line.fits(role, step_id, prompt)]
        if not fitting:
            return None
        most = max(line.specificity for line in fitting)
        chosen = [line for line in fitting if line.specificity == most]
        return chosen[step_id % len(chosen)]
