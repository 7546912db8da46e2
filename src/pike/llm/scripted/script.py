"""The records of a script and the choice of an answer.

Knows which answer fits a query. Does not know files or clients (`client`).
"""

import re
from dataclasses import dataclass

from pike.core.query import Finish
from pike.core.step import Role

_ROLES = ("", *(role.value for role in Role))
TAKEN = "{taken}"
"""In a text, stands for what was taken from the prompt."""
_FLAGS = {"regex": re.NOFLAG, "take": re.DOTALL, "replace": re.MULTILINE | re.DOTALL}
_FAULTS = ("timeout", "dropped")


@dataclass(frozen=True, slots=True)
class Line:
    """One answer of a script; the fields are explained in `pike.llm.scripted.client`."""

    role: str = ""
    contains: str = ""
    regex: str = ""
    step: int | None = None
    text: str = ""
    take: str = ""
    replace: tuple[tuple[str, str], ...] = ()
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
            raise ValueError(f"role {self.role!r} is none of {', '.join(Role)}")
        for error in self.errors:
            if error not in _FAULTS and not (isinstance(error, int) and 400 <= error <= 599):
                raise ValueError(f"error {error!r} is no HTTP status from 400 to 599, 'timeout' or 'dropped'")
        _compiled("regex", self.regex)
        if _compiled("take", self.take).groups != bool(self.take):
            raise ValueError(f"take {self.take!r} must have one group in brackets")
        try:
            self._replaced("")
        except (re.error, IndexError) as error:
            raise ValueError(f"replace {self.replace!r}: {error}") from None

    def reply(self, prompt: str) -> str:
        """The text of the answer; `take` uses its last match in the prompt."""
        if not self.take:
            return self.text
        found = [match[1] for match in _compiled("take", self.take).finditer(prompt)]
        return self.text.replace(TAKEN, self._replaced(found[-1] if found else ""))

    def _replaced(self, taken: str) -> str:
        for old, new in self.replace:
            taken = _compiled("replace", old).sub(new, taken)
        return taken

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
    """A whole script; the fields are explained in `pike.llm.scripted.client`."""

    model: str = "scripted"
    input_usd_per_mtok: float = 0.0
    output_usd_per_mtok: float = 0.0
    unpriced: bool = False
    lines: tuple[Line, ...] = ()

    @property
    def priced(self) -> bool:
        """Whether a price is stated for every answer."""
        return self.input_usd_per_mtok > 0 or self.output_usd_per_mtok > 0

    def pick(self, role: str, step_id: int, prompt: str) -> Line | None:
        """The answer for a query, a pure function of its arguments; None when none fits."""
        fitting = [line for line in self.lines if line.fits(role, step_id, prompt)]
        if not fitting:
            return None
        most = max(line.specificity for line in fitting)
        chosen = [line for line in fitting if line.specificity == most]
        return chosen[step_id % len(chosen)]


def _compiled(name: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, _FLAGS[name])
    except re.error as error:
        raise ValueError(f"{name} {pattern!r}: {error}") from None
