"""The result of a task's lint: the trivial answers that the judge would accept.

Knows the result as a record. Does not know how it is found (`judge`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrivialAnswer:
    """One answer that needs no model, or only a part of it.

    Attributes:
        name: the answer, for example `zeros` or `without 'layer1.0.relu' (its input instead)`.
        refused: whether the judge refuses it, as it should.
        reason: why it was refused, or what its acceptance says about the task.
    """

    name: str
    refused: bool
    reason: str


@dataclass(frozen=True, slots=True)
class LintReport:
    """All trivial answers that were tried on one task.

    Attributes:
        task: its id.
        answers: in the order in which they were tried.
        untried: how many more there were when the time was up.
        device: on which they were tried.
    """

    task: str
    answers: tuple[TrivialAnswer, ...]
    untried: int = 0
    device: str = ""

    @property
    def passing(self) -> tuple[TrivialAnswer, ...]:
        """The trivial answers that the judge would accept; none on a task that tests something."""
        return tuple(answer for answer in self.answers if not answer.refused)

    @property
    def sound(self) -> bool:
        """Whether every trivial answer is refused."""
        return not self.passing
