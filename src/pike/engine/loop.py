"""The search: ask the strategy, let an agent act, have the answer judged, tell the strategy; several at once.

Knows the life of a step and when asking stops. Does not know who writes (`crew`), how a verdict is reached
(`executors`), what comes next (`search`) or how the journal is kept (`store`).

A step moves only forward, each move one journal transaction: `Asked`, (`QuerySent`, `QueryAnswered`), `Proposed`,
`Judged` with `Told`. Each survives the end of the process at once. A power cut may take the last moves that cost no
money (an `Asked`, a `Proposed` that was read from a paid answer, a verdict), as long as nothing was sent after: they
come about again. A process that dies between two moves leaves a step that `Search` picks up at the last one: an answer
is read again instead of being asked again, a proposal is judged, a verdict is told. `Told` is written before the
strategy hears it and before anything that it then decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pike.core.agent import Agent, Proposal
from pike.core.evaluation import Evaluation, Status
from pike.core.events import Asked, Event, Judged, Proposed, Stopped, Told
from pike.core.step import Candidate, Role, Step, Strategy
from pike.engine.boundary import Crossing, Outage, Wall, boundary
from pike.engine.judging import Judging
from pike.engine.replay import Pace
from pike.engine.resume import outcome_of
from pike.engine.scribe import Scribe

WAITING = "waiting"
"""Why a run stops that can only go on with an answer from outside."""
OUT_OF_TIME = "the time was over before its verdict"
"""What became of a candidate that cost nothing and was being judged at the end."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a search is made of.

    Attributes:
        scribe: journal, memory and observer.
        strategy: what to try next, brought to where the journal ends.
        agents: who answers each role.
        judging: who judges.
        pace: when to ask and tell.
        elapsed_seconds: how long the run has been running, earlier processes included.
        patience: failures in a row that end the run, 0 for no end (a replay repeats recorded failures).
    """

    scribe: Scribe
    strategy: Strategy
    agents: Mapping[Role, Agent]
    judging: Judging
    pace: Pace
    elapsed_seconds: Callable[[], float]
    patience: int


class Search:
    """Runs a strategy until it is done, the budget is spent, or it is told to stop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._memory = parts.scribe.memory
        self._record = parts.scribe.record
        self._tasks: dict[asyncio.Task[None], Step] = {}
        self._asking: set[int] = set()
        self._stop = self._memory.closing
        self._halted = ""
        self._wish = ""
        self._wished = asyncio.Event()
        self._providers = Outage(parts.patience)
        self._judges = Outage(parts.patience)

    @property
    def outcome(self) -> str:
        """Why asking stopped: as in `pike.core.events.Stopped`; empty while it has not."""
        return self._halted or self._stop

    async def run(self) -> None:
        """Search until nothing is in flight and asking has stopped.

        Raises:
            UserError: a model's key or name was refused, or a replay went another way than its recording.
            StoreError: the journal cannot be written.
        """
        wish = asyncio.create_task(_wait(self._wished))
        try:
            for state in self._memory.open_steps():
                if self._parts.pace.answers(state.step.id):
                    self._start(state.step)
            self._fill()
            while self._tasks:
                watched = self._tasks if self._halted else {*self._tasks, wish}
                left = self._seconds_left()
                done, _ = await asyncio.wait(watched, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if self._wish:
                    self._halt(self._wish)
                elif self._out_of_time() and self._can_give_up:
                    self._give_up_free()
                self._finish(done - {wish})
                self._fill()
        finally:
            wish.cancel()
            await self._abandon()

    def request_stop(self, reason: str) -> None:
        """Ask the search to stop soon: calls that are out are given up, candidates in hand are judged."""
        self._wish = self._wish or reason
        self._wished.set()

    def _finish(self, done: set[asyncio.Task[None]]) -> None:
        for task in done:
            step = self._tasks.pop(task)
            self._parts.scribe.board.drop(f"c{step.id}")
            if not task.cancelled():
                task.result()
            elif not self._halted and _is_free(step):
                told = Told(step.id, None, (), OUT_OF_TIME)
                self._record(told)
                self._parts.strategy.tell(outcome_of(self._memory, told))

    def _halt(self, reason: str) -> None:
        """Stop in a way that a later process can take up: what is being asked stays open."""
        if self._halted:
            return
        self._halted = reason
        self._record(Stopped(reason))
        for task, step in self._tasks.items():
            if step.id in self._asking:
                task.cancel()

    def _stop_asking(self, reason: str, *before: Event) -> None:
        """Write why asking stops for good, together with what led to it; the first reason stays."""
        if not self._stop:
            self._record(*before, Stopped(reason))
            self._stop = reason
        elif before:
            self._record(*before)

    def _fill(self) -> None:
        pace = self._parts.pace
        if pace.over and not self._over:
            self._stop_asking(pace.over)
        while not self._over and pace.may_ask() and (pace.limit is None or len(self._tasks) < pace.limit):
            if self._out_of_time():
                self._stop_asking("hours")
                return
            step = self._parts.strategy.ask()
            pace.asked(step)
            if step is None:
                if not self._tasks:
                    self._come_to_an_end()
                return
            self._parts.scribe.decide(Asked(step))
            if pace.answers(step.id):
                self._start(step)
        if pace.outside and not self._tasks and not self._over:
            self._come_to_an_end()

    @property
    def _over(self) -> bool:
        return bool(self.outcome)

    def _out_of_time(self) -> bool:
        left = self._seconds_left()
        return left is not None and left <= 0.0

    def _seconds_left(self) -> float | None:
        """Seconds until asking stops, None where nothing is to be done then."""
        limit = self._memory.config.engine.max_hours
        if limit is None or (self._over and not self._can_give_up):
            return None
        return max(0.0, 3600.0 * limit - self._parts.elapsed_seconds())

    @property
    def _can_give_up(self) -> bool:
        """Whether something is being judged that can be let go: not while there is no valid candidate at all."""
        return self._memory.best is not None and any(_is_free(step) for step in self._tasks.values())

    def _give_up_free(self) -> None:
        """Let go of candidates that cost nothing: a verdict on one may take longer than the whole run."""
        for task, step in self._tasks.items():
            if _is_free(step):
                task.cancel()

    def _come_to_an_end(self) -> None:
        if not self._parts.strategy.done:
            if self._parts.pace.outside:
                self._halt(WAITING)
                return
            raise RuntimeError("the strategy is stuck: not done, nothing in flight, and it asks for nothing")
        spent = self._memory.accounts.spend.queries >= self._memory.config.budget.queries
        self._stop_asking("queries" if spent else "done")

    def _start(self, step: Step) -> None:
        self._tasks[asyncio.create_task(self._carry_out(step))] = step

    async def _carry_out(self, step: Step) -> None:
        state = self._memory.steps[step.id]
        if state.candidate is None:
            proposal = await self._ask_agent(step)
            if proposal is None:
                return
            if not proposal.source and not proposal.refused:
                await self._tell_nothing(step, proposal)
                return
            candidate = _candidate(step, proposal)
            if proposal.refused:
                refusal = self._parts.judging.refuse(proposal.refused)
                await self._tell_verdict(step, candidate, Proposed(step.id, candidate), _judged(candidate, refusal))
                return
            self._propose(step, candidate)
        else:
            candidate = state.candidate
        await self._judge_and_tell(step, candidate)

    def _propose(self, step: Step, candidate: Candidate) -> None:
        paid = step.id in self._memory.answers
        (self._parts.scribe.decide if paid else self._record)(Proposed(step.id, candidate))

    async def _judge_and_tell(self, step: Step, candidate: Candidate) -> None:
        judged = self._memory.solutions.get(candidate.id)
        if judged is not None:
            await self._tell_verdict(step, candidate)
            return
        board = self._parts.scribe.board
        board.doing(step, "waiting")
        evaluation = await self._parts.judging.search(candidate.source, lambda stage: board.doing(step, stage))
        if evaluation.status is not Status.INFRA_ERROR:
            self._judges.worked()
        elif self._judges.failed():
            # The candidate stays open: a resume has it judged when the machine works again.
            self._halt("infra")
            return
        await self._tell_verdict(step, candidate, _judged(candidate, evaluation))

    async def _ask_agent(self, step: Step) -> Proposal | None:
        """What the agent brought, None where the step stays open."""
        self._parts.scribe.board.doing(step, _doing(step))
        self._asking.add(step.id)
        try:
            result = await boundary(self._parts.agents[step.role].act(self._memory.context(step)))
        finally:
            self._asking.discard(step.id)
        if not isinstance(result, Crossing):
            self._providers.worked()
            return result
        if result.wall is Wall.BUDGET:
            self._stop_asking(result.reason)
            return None
        if self._providers.failed():
            self._halt("provider")
            return None
        return Proposal(failure=result.reason)

    async def _tell_nothing(self, step: Step, proposal: Proposal) -> None:
        await self._parts.pace.turn_to_tell(step.id)
        told = Told(step.id, None, proposal.ideas, proposal.failure, proposal.text)
        if proposal.exhausted:
            # One transaction: a process that dies between the two would ask once more after a resume.
            self._stop_asking("exhausted", told)
        else:
            self._record(told)
        self._parts.strategy.tell(outcome_of(self._memory, told))

    async def _tell_verdict(self, step: Step, candidate: Candidate, *before: Event) -> None:
        await self._parts.pace.turn_to_tell(step.id)
        told = Told(step.id, candidate.id)
        self._parts.scribe.decide(*before, told)
        self._parts.scribe.flush_soon()
        self._parts.strategy.tell(outcome_of(self._memory, told))

    async def _abandon(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._parts.judging.abandon()


def _is_free(step: Step) -> bool:
    """Whether a step writes a candidate and nobody was paid for it."""
    return step.queries == 0 and step.role is not Role.BRAINSTORM


def _doing(step: Step) -> str:
    if step.role is Role.PLAN:
        return "planning"
    return "fixing" if step.role.repairs else "asking"


def _candidate(step: Step, proposal: Proposal) -> Candidate:
    parent = proposal.parent or step.seed
    written = (proposal.source, parent, proposal.author, proposal.note, proposal.recipes)
    return Candidate(f"c{step.id}", *written, plan=step.plan)


def _judged(candidate: Candidate, evaluation: Evaluation) -> Judged:
    return Judged(candidate.id, evaluation)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
