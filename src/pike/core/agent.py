"""The seam between the engine and the authors of candidates: language models, recipes, people.

Knows what an agent may see and what it gives back. Does not know prompts or recipes.
"""

from dataclasses import dataclass, field
from typing import Protocol

from pike.core.device import DeviceFacts
from pike.core.step import Solution, Step
from pike.core.task import Task
from pike.core.verdict.evaluation import EvaluateOptions
from pike.core.verdict.profile import Profile


@dataclass(frozen=True, slots=True)
class PromptTerms:
    """How a run words its prompts.

    Attributes:
        daring: ask for large steps and show worked examples.
        repairs: how many repairs a refused candidate may get.
        folder: templates that take the place of the shipped ones of the same name, empty for none.
        most_tokens: the model's window for a prompt and its answer, 0 where unknown.
    """

    daring: bool = False
    repairs: int = 0
    folder: str = ""
    most_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompts of one query."""

    system: str
    user: str


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that an agent may see for one step.

    Attributes:
        options: tolerance, precision and limits that will judge the answer.
        reference_ms: measured time of the original model, None where it was not run.
        seed: the solution to improve, None for the original model.
        failing: for a role that repairs, the solution to repair with its diagnostics.
        inspirations: further solutions to show, valid or not.
        failed: refused candidates to show: earlier ones from this seed or of this repair's chain.
        original_profile: where the original's time goes, None where it was not profiled.
        terms: how the prompt is worded.
        known: every candidate of the run that has a verdict, in order of the verdicts.
        seconds_left: until the search is over, None without a limit.
    """

    task: Task
    step: Step
    device: DeviceFacts
    options: EvaluateOptions
    reference_ms: float | None = None
    seed: Solution | None = None
    failing: Solution | None = None
    inspirations: tuple[Solution, ...] = ()
    failed: tuple[Solution, ...] = ()
    original_profile: Profile | None = None
    terms: PromptTerms = PromptTerms()
    known: tuple[Solution, ...] = field(default=())
    seconds_left: float | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """The answer of an agent to a step.

    Attributes:
        source: a whole candidate file, empty when there is none.
        ideas: for a brainstorming step, the ideas, best first.
        text: for a planning step, the plan; for a brainstorming step of recipes, why others do not
            apply.
        author: the model or recipe that wrote it.
        note: one line on what it tries.
        recipes: the recipes it is composed of, empty for a model's answer.
        parent: id of the candidate that it continues, empty for the step's seed.
        refused: why the answer cannot be judged (no code, several files, cut off). It becomes the
            reason of a `parse-error` verdict, so that error fixing can use it.
        failure: why there is no answer; the step closes without a candidate.
        exhausted: the agent has nothing more to offer in this run, so the engine stops asking.
        expected_seconds: how long the verdict should take, 0 where the author cannot say.
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
    expected_seconds: float = 0.0


class Agent(Protocol):
    """Writes candidates and ideas."""

    async def act(self, context: Context) -> Proposal:
        """Answer one step.

        Raises:
            ProviderError: the model could not be reached after all retries.
        """
