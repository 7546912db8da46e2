"""The search: one state machine for every strategy, put together from exchangeable parts.

Knows which step comes next, from a library, a selection, inspirations, repairs, roles and a pacing. Does not know
which of them are in it (`assemble`), nor prompts, models, money, clocks or where candidates run.

A *sample* is a line of work: a first candidate and its immediate repairs, or one deferred repair of an earlier one. The
brainstorming agent is asked first, if at all, free of queries. In `rounds` all samples of a round begin together and
the next round waits for them; `steady` begins a sample whenever one may. When a sample is over, its last candidate
joins the tree and the library. Decided here, because no source says it:

- A fix repairs the sample's latest candidate that holds code (the latest at all if none does), for the sample's seed.
- A sample closes when it is valid, out of attempts, out of budget, when its agent brought nothing, or when the judge
  itself failed (`infra-error`): a repair cannot help there, and what it refused joins nothing.
- A waiting fix is asked before a first query, as it is the longest chain that a round waits for.
- With less budget than a round needs, a shorter round is shared over the same slots.
- A plan that brings nothing ends its sample, and the query set aside for carrying it out is free again. A move that
  needs more queries than are left is not begun.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from pike.core.evaluation import Evaluation, Status
from pike.core.step import ORIGINAL, Candidate, Outcome, Role, Step
from pike.search.allocation import Phase, Sample, may_fix, plan_ideas, usable_ideas
from pike.search.assemble import make_library, make_selection
from pike.search.choices import BudgetCheck, FixOrder, Pacing, Roles, Seeding
from pike.search.family import Family
from pike.search.inspiration import Inspirations
from pike.search.options import Options
from pike.search.parts import OUTSIDE, Kin, Library, Move, Node, Turn
from pike.search.progress import Progress


class Composite:
    """The `Strategy` that all presets are points of.

    All chance comes from streams named after the number of the move or draw, so an ask that gives None leaves no trace.
    With `pacing` `rounds` and `round_end` `all`, what is decided does not depend on the order in which outcomes of
    steps in flight are told: only the ids differ, as they count in order of asking.
    """

    def __init__(self, options: Options, queries: int, run_seed: int) -> None:
        """Prepare a search.

        Args:
            options: all dials.
            queries: the query budget; where the steps are `free`, only the most that are asked.
            run_seed: all that is random follows from it.

        Raises:
            UserError: the library needs an extra that is not installed.
        """
        self._options = options
        self._left = queries
        self._blank = Step(0, Role.OPTIMISE, max_output_tokens=options.max_output_tokens)
        self._family = Family()
        self._library = make_library(options, run_seed)
        self._selection = make_selection(options, self._library, self._family, run_seed)
        self._inspirations = Inspirations(options, self._library, self._family)
        self._progress = Progress(options)
        self._original_ms: float | None = None
        self._admitted = 0
        self._asked = 0
        self._round = -1
        self._moves = 0
        self._samples = 0
        self._to_close = 0
        self._ideas: list[str] = []
        self._open: list[Sample] = []
        self._over: list[Sample] = []
        self._in_flight: dict[int, Sample | None] = {}

    @property
    def done(self) -> bool:
        """True when nothing is in flight and `ask` will never give another step."""
        return not self._in_flight and not self._open and not self._can_begin()

    @property
    def library(self) -> Library:
        """What remembers its solutions."""
        return self._library

    def admit(self, candidate: Candidate, evaluation: Evaluation) -> None:
        """Take a valid solution from outside, before the first ask.

        Raises:
            ValueError: it is not valid, or a step was asked already.
        """
        if evaluation.timing is None or self._asked:
            raise ValueError(f"{candidate.id} must be valid and come before the first ask")
        self._tell_original(evaluation.timing.reference_ms)
        place = (OUTSIDE, self._admitted, 0)
        self._join(Kin(Node(evaluation.timing.candidate_ms, *place, candidate.id, source=candidate.source)))
        self._admitted += 1

    def ask(self) -> Step | None:
        """The next step that can start now, or None."""
        if not self._open and not self._can_begin():
            return None
        if self._asked == 0 and self._options.ideas:
            return self._issue(None)
        if self._round < 0:
            if self._in_flight:
                return None
            self._begin(())
        sample = self._next() or self._another()
        return None if sample is None else self._issue(sample)

    def tell(self, outcome: Outcome) -> None:
        """Take the outcome of a step in flight.

        Raises:
            ValueError: the step was not asked or has been told before.
        """
        if outcome.step_id not in self._in_flight:
            raise ValueError(f"step {outcome.step_id} is not in flight")
        sample = self._in_flight.pop(outcome.step_id)
        if sample is None:
            self._begin(outcome.ideas)
        else:
            self._learn(sample, outcome)
            self._settle()

    def _can_begin(self) -> bool:
        """Whether another sample would begin if nothing were open."""
        return self._left > 0 and (
            self._options.budget_check is BudgetCheck.ROUND or self._selection.can_choose(self._left)
        )

    def _next(self) -> Sample | None:
        """The sample whose next step can start: fixes first. Which of several is asked first decides nothing."""
        for sample in self._open:
            if sample.phase is Phase.FAILED and self._may_fix(sample):
                return sample
        return next((sample for sample in self._open if sample.phase is Phase.PLANNED), None)

    def _may_fix(self, sample: Sample) -> bool:
        limit, order = self._options.at_once, self._options.fix_order
        if self._options.pacing is Pacing.ROUNDS:
            return may_fix(sample, self._open, self._left, limit, order)
        if order is FixOrder.SAMPLE:
            return self._left > 0
        waiting = [other.attempts for other in self._open if other.phase is Phase.FAILED]
        return self._left > 0 and sample.attempts == min(waiting)

    def _another(self) -> Sample | None:
        """A sample that begins now, where they begin one by one and another one may."""
        if self._options.pacing is not Pacing.STEADY or len(self._open) >= self._options.in_flight:
            return None
        moves = self._selection.choose(1, self._left, Turn(0, self._moves, self._samples)) if self._left > 0 else []
        if not moves:
            return None
        seed = moves[0].draw.seed
        fresh = seed == ORIGINAL and moves[0].failing is None
        return self._start(moves[0], self._ideas.pop(0) if fresh and self._ideas else None)

    def _issue(self, sample: Sample | None) -> Step:
        """The next step of `sample` (None for brainstorming), from now on in flight."""
        what: dict[str, Any] = {"role": Role.BRAINSTORM, "queries": 0} if sample is None else self._what(sample)
        if self._options.free:
            what["queries"] = 0
        temperature = self._options.temperature_of(what["role"])
        step = replace(self._blank, id=self._asked, temperature=temperature, **what)
        self._asked += 1
        self._in_flight[step.id] = sample
        return step

    def _what(self, sample: Sample) -> dict[str, Any]:
        """The fields of the next step of `sample`, which starts running and pays for it."""
        role = sample.asked = self._role(sample)
        if sample.phase is Phase.FAILED:
            self._left -= 1
        else:
            sample.reserved -= 1
        sample.phase = Phase.RUNNING
        what = {"role": role, "round": sample.round, "sample": sample.index, "seed": sample.move.draw.seed}
        what |= {"plan": sample.plan, "inspirations": self._inspirations.of_step(role, sample)}
        if not role.repairs:
            return {**what, "idea": sample.idea, "scope": sample.scope}
        sample.attempts += 1
        return {**what, "failing": sample.failing, "attempt": sample.attempts}

    def _role(self, sample: Sample) -> Role:
        if sample.failing:
            return self._options.fixing_role
        if self._options.roles is Roles.OPTIMISE:
            return Role.OPTIMISE
        return Role.CODE if sample.plan else Role.PLAN

    def _learn(self, sample: Sample, outcome: Outcome) -> None:
        candidate, evaluation = outcome.candidate, outcome.evaluation
        if sample.asked is Role.PLAN:
            self._learn_plan(sample, outcome.text)
        elif candidate is None or evaluation is None or evaluation.status is Status.INFRA_ERROR:
            self._close(sample)
        else:
            self._learn_verdict(sample, candidate, evaluation)

    def _learn_plan(self, sample: Sample, plan: str) -> None:
        if plan.strip():
            sample.plan, sample.phase = plan, Phase.PLANNED
        else:
            self._close(sample)

    def _learn_verdict(self, sample: Sample, candidate: Candidate, evaluation: Evaluation) -> None:
        kin = self._kin(sample, candidate, evaluation)
        if kin.node.valid or kin.has_code or sample.result is None or not sample.result.has_code:
            sample.result = kin
            sample.failing = candidate.id
        if evaluation.timing is not None and self._original_ms is None:
            sample.original_ms = evaluation.timing.reference_ms
        if kin.node.valid or sample.attempts >= self._options.at_once:
            self._close(sample)
        else:
            sample.phase = Phase.FAILED

    def _kin(self, sample: Sample, candidate: Candidate, evaluation: Evaluation) -> Kin:
        ms = math.inf if evaluation.candidate_ms is None else evaluation.candidate_ms
        place, draw = (sample.round, sample.index, sample.attempts), sample.move.draw
        node = Node(ms, *place, candidate.id, draw.seed, candidate.source, draw.island)
        return Kin(node, sample.move.under, sample.plan, bool(candidate.source.strip()))

    def _close(self, sample: Sample) -> None:
        sample.phase = Phase.CLOSED
        self._left += sample.reserved
        sample.reserved = 0
        self._open.remove(sample)
        self._over.append(sample)
        if sample.begun == self._round:
            self._to_close -= 1

    def _settle(self) -> None:
        """Close what the budget starves; take in what is over, now or, in rounds, when the next round begins."""
        self._starve()
        if self._options.pacing is Pacing.STEADY:
            self._take_in()
        elif self._to_close <= 0 and self._left > 0:
            self._begin(())
            self._starve()

    def _starve(self) -> None:
        if self._left <= 0 and not any(sample.may_refund for sample in self._open):
            for sample in [sample for sample in self._open if sample.phase is Phase.FAILED]:
                self._close(sample)

    def _take_in(self) -> None:
        """What is over joins the tree and the library, in the order of samples."""
        over = sorted(self._over, key=lambda sample: (sample.place, sample.attempts))
        self._over.clear()
        for sample in over:
            if sample.original_ms is not None:
                self._tell_original(sample.original_ms)
            if sample.result is not None:
                self._join(sample.result)
        for sample in over:
            self._selection.closed(sample.move)
        found = [sample.result.node.ms for sample in over if sample.result]
        self._progress.take(len(over), min(found, default=math.inf))

    def _join(self, kin: Kin) -> None:
        self._family.add(kin)
        self._library.add(kin.node)
        self._selection.learn(kin)

    def _tell_original(self, ms: float) -> None:
        """The library and the selection learn the original's time, once."""
        if self._original_ms is None:
            self._original_ms = ms
            kin = Kin(Node(ms, OUTSIDE, -1, 0, ORIGINAL))
            self._library.add(kin.node)
            self._selection.learn(kin)

    def _begin(self, ideas: tuple[str, ...]) -> None:
        """The first sample can begin, or in rounds: the next round."""
        options = self._options
        if options.pacing is Pacing.STEADY:
            self._round = 0
            self._ideas = usable_ideas(ideas, len(ideas))
            return
        self._take_in()
        size = options.queries_per_round
        whole = options.budget_check is BudgetCheck.ROUND
        queries = size * options.move_queries if whole else self._left
        moves = self._selection.choose(size, queries, Turn(self._round + 1, self._moves, 0))
        if not moves:
            return
        self._round += 1
        self._samples = 0
        for move, idea in zip(moves, plan_ideas(ideas, len(moves)), strict=True):
            self._start(move, idea)
        self._to_close = options.samples_to_wait_for(len(moves))
        if self._round > 0 or options.seeding is not Seeding.ORIGINAL:
            self._library.turn()
            self._selection.turn()

    def _start(self, move: Move, idea: str | None) -> Sample:
        """A new sample, its queries set aside."""
        failing = move.failing
        if failing is None:
            sample = Sample(max(0, self._round), self._samples, move, idea=idea, reserved=self._options.move_queries)
            sample.scope = self._progress.scope_from(move.draw.seed)
            sample.inspirations = self._inspirations.of_move(move)
            self._samples += 1
        else:
            sample = Sample(failing.node.round, failing.node.sample, move, attempts=move.attempt - 1)
            sample.failing, sample.plan = failing.node.id, failing.plan
        sample.begun = self._round
        self._moves += 1
        self._left -= sample.reserved
        self._open.append(sample)
        return sample
