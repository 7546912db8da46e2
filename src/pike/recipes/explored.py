"""What is found out once about a problem before any composition is written.

Knows the record of it: which recipes apply, what each should bring, and what they want written into a candidate. It can
be kept and used elsewhere, on a machine whose minutes are dear for example, as long as device, terms and the version of
PyTorch are the same. Does not know how compositions are chosen from it (`choose`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pike.core.device import DeviceFacts
from pike.core.evaluation import EvaluateOptions
from pike.recipes.choose import Space
from pike.recipes.composition import adaptations, decline_reasons, gains, legal_compositions
from pike.recipes.recipe import Problem, Reference

_EXAMPLE_SEED = 1


@dataclass(frozen=True)
class Explored:
    """One problem, explored.

    Attributes:
        declined: for every recipe, why it does not apply; empty where it does.
        gains: the expected log speedup of every recipe.
        adapted: what recipes that apply want written into a candidate, by their names.
    """

    declined: dict[str, str]
    gains: dict[str, float]
    adapted: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Explored:
        """What `record` gave, for example read from a JSON file."""
        adapted = {name: tuple(keep) for name, keep in record["adapted"].items()}
        return cls(dict(record["declined"]), dict(record["gains"]), adapted)

    @property
    def record(self) -> dict[str, Any]:
        """All of it in plain values, to be kept as JSON."""
        adapted = {name: list(keep) for name, keep in self.adapted.items()}
        return {"declined": self.declined, "gains": self.gains, "adapted": adapted}

    @property
    def applicable(self) -> tuple[str, ...]:
        """The recipes that apply."""
        return tuple(name for name, reason in self.declined.items() if not reason)

    @cached_property
    def space(self) -> Space:
        """The legal compositions, ranked."""
        return Space(legal_compositions(self.applicable), self.gains)


def problem_of(reference: Reference, facts: DeviceFacts, options: EvaluateOptions) -> Problem:
    """What recipes look at, with one example of a call, the same each time."""
    inputs = reference.draw(_EXAMPLE_SEED)
    return Problem(reference.model, inputs.args, inputs.kwargs, facts, options)


def explore(problem: Problem) -> Explored:
    """Capture the model and ask every recipe; takes seconds, minutes for large models."""
    declined = decline_reasons(problem)
    applicable = [name for name, reason in declined.items() if not reason]
    return Explored(declined, gains(problem), adaptations(problem, applicable))
