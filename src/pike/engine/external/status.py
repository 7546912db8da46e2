"""What a run with external answers replies: its status, its next prompt, the outcome of an answer.

Knows how these are computed from the run's state. Does not know moves (`external_run`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pike.core import figures
from pike.core.events import JournalEntry, Told
from pike.core.settings.budget import Budget, Spend
from pike.core.step import Solution, Step
from pike.core.verdict.evaluation import Status
from pike.engine.output.result import RunResult, result_of
from pike.engine.run.external_answers import waiting
from pike.engine.state.run_state import RunState


@dataclass(frozen=True, slots=True)
class ExternalStatus:
    """The status of a run.

    Attributes:
        waiting: the steps that wait for an answer, the oldest first.
        left: queries of the budget that are neither answered nor waiting for a verdict.
        best: the fastest valid candidate with the verdict of the search, None before one.
    """

    result: RunResult
    waiting: tuple[Step, ...]
    left: int
    best: Solution | None

    @property
    def spend(self) -> Spend:
        """What was spent; a step that waits counts already."""
        return self.result.spend

    @property
    def budget(self) -> Budget:
        """The limits."""
        return self.result.budget


@dataclass(frozen=True, slots=True)
class Question:
    """The prompt of a step."""

    step: Step
    system: str
    prompt: str
    status: ExternalStatus

    @property
    def text(self) -> str:
        """All that the model is shown."""
        return f"{self.system}\n\n{self.prompt}\n"


@dataclass(frozen=True, slots=True)
class MoveReply:
    """The outcome of an answer.

    Attributes:
        step: the step that it answered; for a `known` file, the step that it answered first.
        solution: the candidate with its verdict, None for other steps and before the verdict.
        ideas: the ideas of a brainstorming step.
        text: the plan of a planning step.
        failure: why it brought nothing.
        known: the run has judged the same file before: nothing was judged and no query was used.
        status: the run's status now.
    """

    step: Step | None
    solution: Solution | None
    ideas: tuple[str, ...]
    text: str
    failure: str
    known: bool
    status: ExternalStatus

    @property
    def sentence(self) -> str:
        """What became of the answer, without any text that a candidate may have written."""
        status, solution = self.status, self.solution
        left = f"; {status.left} of {figures.plural(status.budget.queries, 'query')} left"
        if solution is None:
            brought = f"{figures.plural(len(self.ideas), 'idea')} taken" if self.ideas else "The plan was taken"
            return f"{brought if self.ideas or self.text else 'The answer brought nothing'}{left}."
        verdict, id_ = solution.evaluation, solution.candidate.id
        again = " (judged before, so no query was used)" if self.known else ""
        if verdict.timing is None or not verdict.valid:
            refused = "could not be judged" if verdict.status is Status.INFRA_ERROR else "was refused"
            return f"{id_} {refused} with {verdict.status.value}{again}{left}."
        timing, best = verdict.timing, ", the best so far" if solution == status.best else ""
        times = f"{figures.times(timing.speedup)} ({figures.interval(timing.speedup_ci95)}) as fast as the original"
        took = f"{figures.ms(timing.candidate_ms)} instead of {figures.ms(timing.reference_ms)}"
        return f"{id_} is right and {times}, {took}{best}{again}{left}."


def status_of(state: RunState, folder: Path) -> ExternalStatus:
    """The status of the run in `state`."""
    out = tuple(step_state.step for step_state in waiting(state))
    left = state.config.budget.queries - state.accounts.spend.queries + sum(step.queries for step in out)
    left = 0 if state.closing else max(0, left)
    return ExternalStatus(result_of(state, folder, state.seconds), out, left, state.best)


def reply_of(entries: Sequence[JournalEntry], state: RunState, folder: Path, step_id: int) -> MoveReply:
    """The outcome of the answer to a step."""
    events = (entry.event for entry in entries)
    told = next((event for event in events if isinstance(event, Told) and event.step_id == step_id), None)
    step_state = state.steps[step_id]
    solution = state.solutions.get(step_state.candidate.id) if step_state.candidate else None
    ideas, text, failure = (told.ideas, told.text, told.failure) if told else ((), "", "it is not judged yet")
    return MoveReply(step_state.step, solution, ideas, text, failure, False, status_of(state, folder))


def known_reply(state: RunState, folder: Path, solution: Solution) -> MoveReply:
    """The reply to a file that the run has judged before."""
    steps = (step_state.step for step_state in state.steps.values() if step_state.candidate == solution.candidate)
    return MoveReply(next(steps, None), solution, (), "", "", True, status_of(state, folder))


def other_answer(state: RunState, folder: Path, step_id: int) -> MoveReply:
    """The reply to an answer whose step has another one already."""
    failure = "its step has another answer already, so this one was not taken"
    return MoveReply(state.steps[step_id].step, None, (), "", failure, True, status_of(state, folder))
