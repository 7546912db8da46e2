"""The search: ask the strategy, let an agent act, judge the answer, tell the strategy.

Knows the life of a step, several of which go on at once, and when asking stops. A step moves only
forward, with one journal transaction for each move (ADR 0009), and a resume picks it up at its
last move. Does not know who writes (`agents`), judges (`executors`) or what comes next (`search`).
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pike.core import figures
from pike.core.agent import Agent, Proposal
from pike.core.errors import ProviderError
from pike.core.events import WORKER, Asked, Assigned, Event, Judged, Proposed, Stopped, Told
from pike.core.step import Candidate, Role, Step, Strategy
from pike.core.verdict.evaluation import Status
from pike.engine.executors.contract import JudgedElsewhere
from pike.engine.output.borrowed import BorrowedLines
from pike.engine.run.judging import Judging
from pike.engine.run.outage import Outage
from pike.engine.state.journal_writer import JournalWriter
from pike.engine.state.ledger import OutOfBudget
from pike.engine.state.pace import Pace
from pike.engine.state.progress import doing_of
from pike.engine.state.resume import outcome_of
from pike.engine.state.timetable import Timetable

WAITING = "waiting"
"""Why a run stops that needs an external answer to go on."""
ELSEWHERE = "elsewhere"
"""Why a run stops whose candidates wait for verdicts of another machine."""
OUT_OF_TIME = "the time was over before its verdict"
"""The failure of a candidate without a price that was still being judged when time was up."""
LOOK_SECONDS = 0.2
"""How soon a search that stops sees that a call failed, and will not be tried again."""


@dataclass(frozen=True, slots=True)
class SearchParts:
    """The parts of a search.

    Attributes:
        patience: failures in a row that end the run; 0 for none, because a replay repeats failures.
        loses: whether the answer that a step waits for is paid, and lost if it is cancelled.
        borrowed: labels what is another run's.
    """

    writer: JournalWriter
    strategy: Strategy
    agents: Mapping[Role, Agent]
    judging: Judging
    pace: Pace
    timetable: Timetable
    patience: int
    borrowed: BorrowedLines
    loses: Callable[[int], bool] = lambda _: False


class Search:
    """Runs a strategy until it is done, the budget is spent, or it is told to stop."""

    def __init__(self, parts: SearchParts) -> None:
        self._parts = parts
        self._state = parts.writer.state
        self._record = parts.writer.record
        self._tasks: dict[asyncio.Task[Any], Step] = {}
        self._asking: set[int] = set()
        self._stop = self._state.closing
        self._halted = ""
        self._elsewhere = 0
        self._wish = ""
        self._wished = asyncio.Event()
        self._providers = Outage(parts.patience)
        self._judges = Outage(parts.patience)

    @property
    def outcome(self) -> str:
        """Why asking stopped: as in `pike.core.events.Stopped`; empty while it has not."""
        return self._halted or self._stop

    async def run(self) -> None:
        """Search until nothing is in flight and asking has stopped."""
        wish = asyncio.create_task(self._wished.wait())
        try:
            for step_state in self._state.open_steps():
                if self._parts.pace.answers(step_state.step.id):
                    self._start(step_state.step)
            self._fill()
            while self._tasks:
                watched = self._tasks if self._halted else {*self._tasks, wish}
                left = self._let_go() if self._halted else self._seconds_to_wait()
                done, _ = await asyncio.wait(watched, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if self._wish:
                    self._halt(self._wish)
                elif self._seconds_to_wait() == 0.0:
                    self._give_up_free()
                self._finish(done - {wish})
                self._fill()
            if self._elsewhere:
                self._halt(ELSEWHERE)
        finally:
            wish.cancel()
            await self._abandon()

    def request_stop(self, reason: str) -> None:
        """Ask the search to stop soon: it waits for answers that are paid, and judges what it has."""
        self._wish = self._wish or reason
        self._wished.set()

    def _finish(self, done: set[asyncio.Task[Any]]) -> None:
        for task in done:
            step = self._tasks.pop(task)
            self._parts.writer.board.drop(f"c{step.id}")
            if not task.cancelled():
                task.result()
            elif not self._halted and _is_free(step):
                told = Told(step.id, None, (), OUT_OF_TIME)
                self._record(told)
                self._parts.strategy.tell(outcome_of(self._state, told))

    def _halt(self, reason: str) -> None:
        """Stop in a way that a later process can continue: steps that are being asked stay open."""
        if self._halted:
            return
        self._halted = reason
        self._record(Stopped(reason))
        self._let_go()
        if self._asking:
            again = "again" if reason == self._wish else "twice"
            self._parts.writer.board.note(
                f"waiting for {figures.plural(len(self._asking), 'answer')} in flight "
                f"(Ctrl-C {again} ends at once; a resume then asks, and pays, again)"
            )

    def _let_go(self) -> float | None:
        """Cancel what is being asked and would not be lost; returns when to look again."""
        for task, step in self._tasks.items():
            if step.id in self._asking and not self._parts.loses(step.id):
                self._asking.discard(step.id)
                task.cancel()
        return LOOK_SECONDS if self._asking else self._seconds_to_wait()

    def _stop_asking(self, reason: str, *before: Event) -> None:
        """Write why asking stops for good, after the events `before`; the first reason stays."""
        if not self._stop:
            self._record(*before, Stopped(reason))
            self._stop = reason
        elif before:
            self._record(*before)

    def _fill(self) -> None:
        pace = self._parts.pace
        if pace.over and not self._over:
            self._stop_asking(pace.over)
        while not self._over and pace.may_ask() and (pace.limit is None or self._in_flight < pace.limit):
            if self._parts.timetable.search_seconds_left == 0.0:
                self._stop_asking("hours")
                return
            step = self._parts.strategy.ask()
            pace.asked(step)
            if step is None:
                if not self._tasks:
                    self._come_to_an_end()
                return
            self._parts.writer.decide(Asked(step))
            if pace.answers(step.id):
                self._start(step)
        if pace.outside and not self._tasks and not self._over:
            self._come_to_an_end()

    @property
    def _in_flight(self) -> int:
        return len(self._tasks) + self._elsewhere

    @property
    def _over(self) -> bool:
        return bool(self.outcome)

    def _seconds_to_wait(self) -> float | None:
        """Seconds until candidates are given up that cost nothing, None where there are none.

        A run without a valid candidate is more patient.
        """
        if not any(_is_free(step) for step in self._tasks.values()):
            return None
        timetable = self._parts.timetable
        return timetable.patience_seconds_left if self._state.best is None else timetable.search_seconds_left

    def _give_up_free(self) -> None:
        """Cancel candidates that cost nothing: one verdict may take longer than the whole run."""
        for task, step in self._tasks.items():
            if _is_free(step):
                task.cancel()

    def _come_to_an_end(self) -> None:
        if self._elsewhere:
            return
        if not self._parts.strategy.done:
            if self._parts.pace.outside:
                self._halt(WAITING)
                return
            raise RuntimeError("the strategy is stuck: not done, nothing in flight, and it asks for nothing")
        spent = self._state.accounts.spend.queries >= self._state.config.budget.queries
        self._stop_asking("queries" if spent else "done")

    def _start(self, step: Step) -> None:
        self._tasks[asyncio.create_task(self._carry_out(step))] = step

    async def _carry_out(self, step: Step) -> None:
        step_state = self._state.steps[step.id]
        if step_state.candidate is None:
            proposal = await self._ask_agent(step)
            if proposal is None:
                return
            if not proposal.source and not proposal.refused:
                await self._tell_nothing(step, proposal)
                return
            candidate = _candidate(step, proposal)
            if proposal.refused:
                refusal = self._parts.judging.refuse(proposal.refused)
                await self._tell_verdict(step, candidate, Proposed(step.id, candidate), Judged(candidate.id, refusal))
                return
            paid = step.id in self._state.answers
            (self._parts.writer.decide if paid else self._record)(Proposed(step.id, candidate))
        else:
            candidate = step_state.candidate
        await self._judge_and_tell(step, candidate)

    async def _judge_and_tell(self, step: Step, candidate: Candidate) -> None:
        if candidate.id in self._state.solutions:
            await self._tell_verdict(step, candidate)
            return
        board = self._parts.writer.board
        board.doing(step, "waiting")

        def show(stage: str) -> None:
            if stage.startswith(WORKER):
                self._parts.writer.decide(Assigned(candidate.id, stage))
            board.doing(step, stage)

        try:
            evaluation = await self._parts.judging.search(candidate, show)
        except JudgedElsewhere:
            self._elsewhere += 1
            return
        if evaluation.status is not Status.INFRA_ERROR:
            self._judges.worked()
        elif self._judges.failed():
            # The candidate stays open: a resume judges it when the machine works again.
            self._halt("infra")
            return
        evaluation = self._parts.borrowed.labelled(candidate, evaluation)
        await self._tell_verdict(step, candidate, Judged(candidate.id, evaluation))

    async def _ask_agent(self, step: Step) -> Proposal | None:
        """The agent's proposal, None where the step stays open."""
        self._parts.writer.board.doing(step, doing_of(step))
        self._asking.add(step.id)
        try:
            context = replace(self._state.context(step), seconds_left=self._parts.timetable.search_seconds_left)
            proposal = await self._parts.agents[step.role].act(context)
        except OutOfBudget as signal:
            self._stop_asking(signal.reason)
            return None
        except ProviderError as error:
            if self._providers.failed():
                self._halt("provider")
                return None
            return Proposal(failure=str(error))
        finally:
            self._asking.discard(step.id)
        self._providers.worked()
        return proposal

    async def _tell_nothing(self, step: Step, proposal: Proposal) -> None:
        await self._parts.pace.turn_to_tell(step.id)
        told = Told(step.id, None, proposal.ideas, proposal.failure, proposal.text)
        if proposal.exhausted:
            # One transaction: a process that died between the two would ask once more after a resume.
            self._stop_asking("exhausted", told)
        else:
            self._record(told)
        self._parts.strategy.tell(outcome_of(self._state, told))

    async def _tell_verdict(self, step: Step, candidate: Candidate, *before: Event) -> None:
        await self._parts.pace.turn_to_tell(step.id)
        told = Told(step.id, candidate.id)
        self._parts.writer.decide(*before, told)
        self._parts.writer.flush_soon()
        self._parts.strategy.tell(outcome_of(self._state, told))

    async def _abandon(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._parts.judging.abandon()


def _is_free(step: Step) -> bool:
    """Whether a step writes a candidate and costs no query."""
    return step.queries == 0 and step.role not in (Role.BRAINSTORM, Role.PLAN)


def _candidate(step: Step, proposal: Proposal) -> Candidate:
    parent = proposal.parent or step.seed
    written = (proposal.source, parent, proposal.author, proposal.note, proposal.recipes)
    return Candidate(f"c{step.id}", *written, plan=step.plan, expected_seconds=proposal.expected_seconds)
