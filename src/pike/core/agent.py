"""The seam between the engine and whoever writes candidates: a language model, a recipe, a person.

Knows what an agent may look at and what it gives back. Does not know prompts (`agents`) or recipes (`recipes`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from pike.core.device import DeviceFacts
from pike.core.evaluation import EvaluateOptions
from pike.core.step import Solution, Step
from pike.core.task import Task


@dataclass(frozen=True, slots=True)
class Context:
    """Everything an agent may look at for one step.

    Attributes:
        task: the problem.
        step: what the strategy decided.
        device: where candidates run.
        options: tolerance, precision and limits that will judge the answer.
        reference_ms: measured time of the original model, None before the first valid verdict.
        seed: the solution to improve, None for the original model.
        failing: for a role that repairs, the solution to repair with its diagnostics.
        inspirations: further solutions to show, valid or not.
        known: every candidate of the run so far whose verdict is in, with it, in order of the verdicts.
    """

    task: Task
    step: Step
    device: DeviceFacts
    options: EvaluateOptions
    reference_ms: float | None = None
    seed: Solution | None = None
    failing: Solution | None = None
    inspirations: tuple[Solution, ...] = ()
    known: tuple[Solution, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an agent gives back.

    Attributes:
        source: a whole candidate file, empty when there is none.
        ideas: for a brainstorming step, the ideas, best first.
        text: for a planning step, the plan; for a brainstorming step of recipes, why the others do not apply.
        author: the model or recipe that wrote it.
        note: one line on what it tries.
        recipes: the recipes it is composed of, empty for a model's answer.
        parent: id of the candidate that it says it continues, empty for the step's seed.
        refused: why the answer cannot be judged (no code, several files, cut off); it becomes the reason of a
            `parse-error` verdict, so that error fixing can use it.
        failure: why there is nothing at all (nothing left to try); the step closes without a candidate.
        exhausted: True when the agent has nothing more to offer in this run; the engine then stops asking.
    """

    source: str = ""
    ideas: tuple[str, ...] = ()
    text: str = ""
    author: str = ""
    note: str = ""
    recipes: tuple[str, ...] = ()
    parent: str = ""
    refused: str = ""
    failure: str = ""
    exhausted: bool = False


class Agent(Protocol):
    """Writes candidates and ideas."""

    async def act(self, context: Context) -> Proposal:
        """Answer one step.

        Raises:
            ProviderError: the model could not be reached after all retries.
        """
        ...
