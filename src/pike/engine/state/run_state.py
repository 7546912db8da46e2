"""The state of a run: a fold over its journal, the same for new events and for those read back.

Knows every candidate, verdict, step and total of one run, and so is the only view of a run that a
running and a resumed engine have. Does not write the journal and decides nothing.
"""

from collections import Counter
from dataclasses import dataclass

from pike import search
from pike.core.accounts import Accounts
from pike.core.agent import Context, PromptTerms
from pike.core.device import DeviceFacts
from pike.core.events import (
    Admitted,
    Asked,
    BatchSent,
    Compared,
    Event,
    Finished,
    JournalEntry,
    Judged,
    Proposed,
    QueryAnswered,
    Resumed,
    RunStarted,
    Stopped,
    Told,
)
from pike.core.query import Answer
from pike.core.settings.config import RunConfig
from pike.core.step import ORIGINAL, Candidate, Role, Solution, Step
from pike.core.task import Task
from pike.core.verdict.evaluation import Effort, Evaluation, Status

NOT_REUSED = frozenset({Status.INFRA_ERROR, Status.UNTRUSTED_TIMING, Status.PARSE_ERROR})
"""Verdicts that say nothing lasting about a source, or that are cheap to reach again."""


@dataclass(slots=True)
class StepState:
    """How far a step has come.

    Attributes:
        known: how many verdicts were in when it was asked.
        reference_ms: the reference time known when it was asked.
        told: the strategy knows its outcome.
    """

    step: Step
    known: int
    reference_ms: float | None
    candidate: Candidate | None = None
    told: bool = False


class RunState:
    """The state of one run.

    Attributes:
        started: the first event, None before it.
        solutions: candidates with their search verdict, by id.
        finals: verdicts of the re-measurement, by candidate id, in order.
        baselines: verdicts on baselines beside them, by name.
        steps: every step asked, by id.
        costs_queries: a step so far was counted against the budget of queries.
        latest_round: the highest search round begun, -1 before the first.
        answers: paid answers, by step id.
        batches: handles of the batches that hold unanswered steps, by step id.
        accounts: the totals.
        known: candidates in order of their verdicts.
        reference_ms: the original model's time in the first valid verdict, before it in the
            preflight.
        closing: why asking stopped for good, empty while it has not.
        stopped: the last reason to stop.
        finished: the last event of a complete run.
        remarks: what a brainstorming step said beside its ideas.
    """

    def __init__(self) -> None:
        self.started: RunStarted | None = None
        self.solutions: dict[str, Solution] = {}
        self.finals: dict[str, Evaluation] = {}
        self.baselines: dict[str, Evaluation] = {}
        self.steps: dict[int, StepState] = {}
        self.costs_queries = False
        self.latest_round = -1
        self.answers: dict[int, Answer] = {}
        self.batches: dict[int, str] = {}
        self.accounts = Accounts()
        self.known: list[Candidate] = []
        self.reference_ms: float | None = None
        self.closing = ""
        self.stopped = ""
        self.finished: Finished | None = None
        self.remarks = ""
        self.counts: Counter[Status] = Counter()
        self.best_id: str | None = None
        self._reusable: dict[str, Evaluation] = {}
        self._candidates: dict[str, Candidate] = {}
        self._ended_seconds = 0.0
        self._session_seconds: tuple[float, float] | None = None

    def replay(self, entry: JournalEntry) -> None:
        """Take an entry that was read back, its time included."""
        at = entry.at_seconds
        if isinstance(entry.event, RunStarted | Resumed) or self._session_seconds is None:
            self._ended_seconds = self.seconds
            self._session_seconds = (at, at)
        else:
            self._session_seconds = (self._session_seconds[0], at)
        self.apply(entry.event)

    def apply(self, event: Event) -> None:
        """Take one event, in journal order."""
        self.accounts.apply(event)
        match event:
            case RunStarted():
                self.started, self.reference_ms = event, event.original_ms
            case Asked(step=step):
                self.costs_queries = self.costs_queries or step.queries > 0
                self.latest_round = max(self.latest_round, step.round)
                self.steps[step.id] = StepState(step, len(self.known), self.reference_ms)
            case QueryAnswered(step_id=step_id, answer=answer):
                self.answers[step_id] = answer
                self.batches.pop(step_id, None)
            case BatchSent(steps=steps, handle=handle) if handle:
                self.batches |= dict.fromkeys(steps, handle)
            case Proposed(step_id=step_id, candidate=candidate):
                self.steps[step_id].candidate = candidate
                self._candidates[candidate.id] = candidate
            case Admitted(candidate=candidate, evaluation=evaluation):
                self._learn(candidate, evaluation)
            case Judged(candidate_id=id_, evaluation=evaluation, effort=Effort.SEARCH):
                self._learn(self._candidates[id_], evaluation)
            case Judged(candidate_id=id_, evaluation=evaluation):
                self.finals[id_] = evaluation
            case Compared(baseline=name, evaluation=evaluation):
                self.baselines[name] = evaluation
            case Told(step_id=step_id, text=text):
                self.steps[step_id].told = True
                if self.steps[step_id].step.role is Role.BRAINSTORM:
                    self.remarks = text
            case Stopped(reason=reason):
                self.stopped = reason
                self.closing = self.closing or (reason if event.for_good else "")
            case Finished():
                self.finished = event

    @property
    def task(self) -> Task:
        """The problem."""
        return self._begun.task

    @property
    def config(self) -> RunConfig:
        """Everything that decides the run."""
        return self._begun.config

    @property
    def device(self) -> DeviceFacts:
        """Where candidates run."""
        return self._begun.device

    @property
    def version(self) -> str:
        """The version of PIKE that began the run."""
        return self._begun.pike_version

    @property
    def seconds(self) -> float:
        """Running time of the processes that were read back, the pauses between them excluded."""
        begin, end = self._session_seconds or (0.0, 0.0)
        return self._ended_seconds + end - begin

    @property
    def best(self) -> Solution | None:
        """The fastest valid candidate by its search verdict."""
        return self.solutions[self.best_id] if self.best_id else None

    def open_steps(self) -> list[StepState]:
        """Steps whose outcome the strategy does not know, in order of asking."""
        return [step_state for step_state in self.steps.values() if not step_state.told]

    def verdict_on(self, source: str) -> Evaluation | None:
        """The verdict that this run already reached on the same source, if it may be reused."""
        return self._reusable.get(source)

    def context(self, step: Step) -> Context:
        """What an agent may see for `step`: the state when it was asked, also after a resume."""
        step_state = self.steps[step.id]
        return Context(
            task=self.task,
            step=step,
            device=self.device,
            options=self.config.evaluate,
            reference_ms=step_state.reference_ms,
            seed=None if step.seed == ORIGINAL else self.solutions[step.seed],
            failing=None if step.failing is None else self.solutions[step.failing],
            inspirations=tuple(self.solutions[id_] for id_ in step.inspirations if id_ != ORIGINAL),
            failed=tuple(self.solutions[id_] for id_ in step.failed),
            original_profile=self._begun.original_profile,
            terms=prompt_terms(self.config),
            known=tuple(self.solutions[candidate.id] for candidate in self.known[: step_state.known]),
        )

    @property
    def _begun(self) -> RunStarted:
        if self.started is None:
            raise ValueError("the journal does not begin with RunStarted")
        return self.started

    def _learn(self, candidate: Candidate, evaluation: Evaluation) -> None:
        self.solutions[candidate.id] = Solution(candidate, evaluation)
        self._candidates[candidate.id] = candidate
        self.known.append(candidate)
        self.counts[evaluation.status] += 1
        if candidate.source and evaluation.status not in NOT_REUSED:
            self._reusable.setdefault(candidate.source, evaluation)
        if evaluation.timing is not None:
            best = self.best
            if best is None:
                self.reference_ms = evaluation.timing.reference_ms
            new, on_gpu = self.solutions[candidate.id], self.device.is_cuda
            if best is None or new.slowness(on_gpu) < best.slowness(on_gpu):
                self.best_id = candidate.id


def prompt_terms(config: RunConfig) -> PromptTerms:
    """How a run with this configuration words its prompts."""
    needs, prompt = search.needs(config.strategy), config.prompt
    return PromptTerms(needs.daring, needs.repairs, prompt.folder, prompt.most_tokens)
