"""A recorded run: its answers, its proposals and the order of its decisions.

Knows what one journal says, and gives it again as an agent. Does not know which pace uses it.
"""

from dataclasses import dataclass
from pathlib import Path

from pike import search, store
from pike.core.agent import Context, Proposal
from pike.core.errors import UserError
from pike.core.events import Admitted, Asked, Event, Proposed, QueryAnswered, RunStarted, Stopped, Told
from pike.core.query import Answer
from pike.core.settings.config import RunConfig
from pike.core.step import Candidate

Decision = Asked | Told


@dataclass(frozen=True, slots=True)
class Recording:
    """What a run left in its journal.

    Attributes:
        told: how its steps ended, by step id.
        admitted: solutions that entered from outside.
        decisions: what was asked and told, in order.
        stopped: why it stopped asking, `done` if its journal does not say.
    """

    folder: Path
    started: RunStarted
    answers: dict[int, Answer]
    proposed: dict[int, Candidate]
    told: dict[int, Told]
    admitted: tuple[Admitted, ...]
    decisions: tuple[Decision, ...]
    stopped: str

    async def act(self, context: Context) -> Proposal:
        """What the recorded step brought: a recording is the agent that repeats itself."""
        step_id = context.step.id
        candidate, told = self.proposed.get(step_id), self.told.get(step_id)
        if candidate is not None and (told is None or told.candidate_id is not None):
            return Proposal(
                candidate.source,
                author=candidate.author,
                note=candidate.note,
                recipes=candidate.recipes,
                parent=candidate.parent,
                expected_seconds=candidate.expected_seconds,
            )
        if told is not None:
            return Proposal(ideas=told.ideas, text=told.text, failure=told.failure)
        return Proposal(failure="the recorded run has no outcome for this step")

    def require_same(self, task_id: str, config: RunConfig) -> None:
        """Check that a replay can make the same decisions.

        Raises:
            UserError: another task, strategy, query budget or run seed.
        """
        then = self.started.config
        for what, was, now in (
            ("task", self.started.task.id, task_id),
            ("strategy", search.resolve(then.strategy), config.strategy),
            ("query budget", then.budget.queries, config.budget.queries),
            ("run seed", then.engine.run_seed, config.engine.run_seed),
        ):
            if was != now:
                raise UserError(
                    f"A replay of {self.folder} needs its {what}, {was}, not {now}; "
                    "or give --set llm.replay_verdicts=false to use only its answers"
                )


def record_of(folder: Path) -> Recording:
    """Read a recorded run.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    events: list[Event] = [entry.event for entry in store.read(folder)]
    if not events or not isinstance(events[0], RunStarted):
        raise UserError(f"The run in {folder} has not begun, so there is nothing to replay")
    stops = [event for event in events if isinstance(event, Stopped)]
    reasons = [stop.reason for stop in stops if stop.for_good] or [stop.reason for stop in stops]
    return Recording(
        folder=folder,
        started=events[0],
        answers={event.step_id: event.answer for event in events if isinstance(event, QueryAnswered)},
        proposed={event.step_id: event.candidate for event in events if isinstance(event, Proposed)},
        told={event.step_id: event for event in events if isinstance(event, Told)},
        admitted=tuple(event for event in events if isinstance(event, Admitted)),
        decisions=tuple(event for event in events if isinstance(event, Asked | Told)),
        stopped=reasons[-1] if reasons else "done",
    )
