"""The search: one state machine for every strategy, put together from exchangeable parts.

Knows which step comes next, from a library, a selection, inspirations, repairs, roles and a pacing.
Does not know which of them are in use (`assemble`), nor prompts, models, money, clocks or where
candidates run.

A *sample* is a first candidate and its immediate repairs, or one deferred repair of an earlier
candidate. The brainstorming agent is asked first, if at all, free of queries. In rounds, all
samples of a round begin together and the next round waits for them; a steady search begins a sample
whenever one may. When a sample is over, its last candidate joins the tree and the library. Decided
here, because no source says it:

- A fix repairs the sample's latest candidate that holds code (the latest at all if none does), for
  the sample's seed.
- A sample closes when it is valid, out of attempts or out of budget, or when its agent brought
  nothing. It also closes when the judge itself failed (`infra-error`): a repair cannot help, and
  the refused candidate joins nothing.
- A waiting fix is asked before a first query, because a round waits longest for it.
- If the budget does not cover a round, a shorter round is shared over the same slots.
- A plan that brings nothing ends its sample, and frees the query set aside for carrying it out. A
  move that needs more queries than are left is not begun.
"""

import math
from dataclasses import replace
from typing import Any

from pike.core.step import ORIGINAL, Candidate, Outcome, Role, Step
from pike.core.verdict.evaluation import Evaluation, Status
from pike.search.allocation import may_fix, plan_ideas, usable_ideas
from pike.search.assemble import make_library, make_selection
from pike.search.inspiration import Inspirations
from pike.search.options.pacing import Rounds, Steady
from pike.search.options.prompting import PlanCode
from pike.search.options.repair import FixOrder, Immediate
from pike.search.options.search import SearchOptions
from pike.search.options.selection import Seeding, TopK, Weighted
from pike.search.parts import OUTSIDE, Move, Node, SearchState
from pike.search.progress import SearchProgress
from pike.search.sample import Phase, Sample
from pike.search.tree import CandidateTree


class CompositeStrategy:
    """The `Strategy` that all presets are points of.

    All chance comes from streams named after the number of the move or draw, so an ask that gives
    None leaves no trace. In rounds with quorum 1, decisions do not depend on the order in which
    outcomes are told: only the ids differ, because they count in order of asking.
    """

    def __init__(self, options: SearchOptions, queries: int, run_seed: int) -> None:
        """Prepare a search.

        Args:
            options: all dials.
            queries: the query budget; for steps that are `free`, only the most that are asked.
            run_seed: all that is random follows from it.
        """
        self._options = options
        self._left = queries
        self._blank = Step(0, Role.OPTIMISE, max_output_tokens=options.max_output_tokens)
        self._tree = CandidateTree()
        self.library = make_library(options, run_seed)
        """The part that remembers solutions."""
        self._selection = make_selection(options, self.library, self._tree, run_seed)
        self._inspirations = Inspirations(options, self.library, self._tree)
        self._progress = SearchProgress(options.scope)
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

    def admit(self, candidate: Candidate, evaluation: Evaluation) -> None:
        """Take a valid solution from outside, before the first ask.

        Raises:
            ValueError: it is not valid, or a step was asked already.
        """
        if evaluation.timing is None or self._asked:
            raise ValueError(f"{candidate.id} must be valid and come before the first ask")
        self._tell_original(evaluation.timing.reference_ms)
        self._join(
            Node(evaluation.timing.candidate_ms, OUTSIDE, self._admitted, 0, candidate.id, source=candidate.source)
        )
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
        return self._left > 0 and (self._options.overdraws or self._selection.can_choose(self._left))

    def _next(self) -> Sample | None:
        """The sample whose next step can start, fixes first; the order changes no decision."""
        for sample in self._open:
            if sample.phase is Phase.FAILED and self._may_fix(sample):
                return sample
        return next((sample for sample in self._open if sample.phase is Phase.PLANNED), None)

    def _may_fix(self, sample: Sample) -> bool:
        repair = self._options.repair
        order = repair.order if isinstance(repair, Immediate) else FixOrder.SAMPLE
        if self._options.in_rounds:
            return may_fix(sample, self._open, self._left, self._options.repairs_at_once, order)
        if order is FixOrder.SAMPLE:
            return self._left > 0
        waiting = [other.attempts for other in self._open if other.phase is Phase.FAILED]
        return self._left > 0 and sample.attempts == min(waiting)

    def _another(self) -> Sample | None:
        """A sample that begins now, in a steady search with room for another one."""
        pacing = self._options.pacing
        if not isinstance(pacing, Steady) or len(self._open) >= pacing.in_flight or self._left <= 0:
            return None
        moves = self._selection.choose(1, self._left, SearchState(0, self._moves, self._samples))
        if not moves:
            return None
        fresh = moves[0].draw.seed == ORIGINAL and moves[0].failing is None
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
        cost = 0 if role is Role.PLAN and self._options.roles.queries == 1 else 1  # its code pays for the attempt
        if sample.phase is Phase.FAILED:
            self._left -= cost
        else:
            sample.reserved -= cost
        sample.phase = Phase.RUNNING
        what = {
            "role": role,
            "queries": cost,
            "round": sample.round,
            "sample": sample.index,
            "seed": sample.move.draw.seed,
        }
        what |= {"plan": sample.plan, "inspirations": self._inspirations.of_step(role, sample)}
        what["failed"] = self._inspirations.failed(sample)
        if not role.repairs:
            return {**what, "idea": sample.idea, "scope": sample.scope}
        sample.attempts += 1
        return {**what, "failing": sample.failing, "attempt": sample.attempts}

    def _role(self, sample: Sample) -> Role:
        if sample.failing:
            return self._options.fixing_role
        if isinstance(self._options.roles, PlanCode):
            return Role.CODE if sample.plan else Role.PLAN
        return Role.OPTIMISE

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
            if self._options.roles.queries == 1:  # a plan is no query: an unusable one uses the attempt all the same
                sample.reserved = 0
            self._close(sample)

    def _learn_verdict(self, sample: Sample, candidate: Candidate, evaluation: Evaluation) -> None:
        node = self._node(sample, candidate, evaluation)
        if node.has_code and not node.valid:
            sample.refused.append(node.id)
        if node.valid or node.has_code or sample.result is None or not sample.result.has_code:
            sample.result = node
            sample.failing = candidate.id
        if evaluation.timing is not None and self._original_ms is None:
            sample.original_ms = evaluation.timing.reference_ms
        if node.valid or sample.attempts >= self._options.repairs_at_once:
            self._close(sample)
        else:
            sample.phase = Phase.FAILED

    def _node(self, sample: Sample, candidate: Candidate, evaluation: Evaluation) -> Node:
        ms = math.inf if evaluation.candidate_ms is None else evaluation.candidate_ms
        draw = sample.move.draw
        return Node(
            ms,
            *(sample.round, sample.index, sample.attempts),
            id=candidate.id,
            parent=draw.seed,
            source=candidate.source,
            island=draw.island,
            under=sample.move.under,
            plan=sample.plan,
        )

    def _close(self, sample: Sample) -> None:
        sample.phase = Phase.CLOSED
        self._left += sample.reserved
        sample.reserved = 0
        self._open.remove(sample)
        self._over.append(sample)
        if sample.begun == self._round:
            self._to_close -= 1

    def _settle(self) -> None:
        """Close starved samples; take in finished ones, now or with the next round."""
        self._starve()
        if not self._options.in_rounds:
            self._take_in()
        elif self._to_close <= 0 and self._left > 0:
            self._begin(())
            self._starve()

    def _starve(self) -> None:
        if self._left <= 0 and not any(sample.may_refund for sample in self._open):
            for sample in [sample for sample in self._open if sample.phase is Phase.FAILED]:
                self._close(sample)

    def _take_in(self) -> None:
        """Samples that are over join the tree and the library, in the order of samples."""
        over = sorted(self._over, key=lambda sample: (sample.place, sample.attempts))
        self._over.clear()
        for sample in over:
            if sample.original_ms is not None:
                self._tell_original(sample.original_ms)
            if sample.result is not None:
                self._join(sample.result)
        for sample in over:
            self._selection.close(sample.move)
        found = [sample.result.ms for sample in over if sample.result]
        self._progress.take(len(over), min(found, default=math.inf))

    def _join(self, node: Node) -> None:
        self._tree.add(node)
        self.library.add(node)
        self._selection.learn(node)

    def _tell_original(self, ms: float) -> None:
        """The library and the selection learn the original's time, once."""
        if self._original_ms is None:
            self._original_ms = ms
            node = Node(ms, OUTSIDE, -1, 0, ORIGINAL)
            self.library.add(node)
            self._selection.learn(node)

    def _begin(self, ideas: tuple[str, ...]) -> None:
        """Begin the next round, or in a steady search let the first sample begin."""
        options, pacing = self._options, self._options.pacing
        if not isinstance(pacing, Rounds):
            self._round = 0
            self._ideas = usable_ideas(ideas, len(ideas))
            return
        self._take_in()
        queries = pacing.samples * options.roles.queries if options.overdraws else self._left
        moves = self._selection.choose(pacing.samples, queries, SearchState(self._round + 1, self._moves, 0))
        if not moves:
            return
        self._round += 1
        self._samples = 0
        for move, idea in zip(moves, plan_ideas(ideas, len(moves)), strict=True):
            self._start(move, idea)
        self._to_close = pacing.to_wait_for(len(moves))
        if self._round > 0 or not self._admitted_compete_later():
            self.library.begin_round()
            self._selection.begin_round()

    def _admitted_compete_later(self) -> bool:
        """Whether admitted solutions stay for round 1, because round 0 ignores them."""
        chosen = self._options.selection
        return isinstance(chosen, TopK | Weighted) and chosen.seeding is Seeding.ORIGINAL

    def _start(self, move: Move, idea: str | None) -> Sample:
        """A new sample, its queries set aside."""
        failing = move.failing
        if failing is None:
            cost = self._options.roles.queries
            sample = Sample(max(0, self._round), self._samples, move, idea=idea, reserved=cost)
            sample.scope = self._progress.scope_from(move.draw.seed)
            sample.inspirations = self._inspirations.of_move(move)
            self._samples += 1
        else:
            sample = Sample(failing.round, failing.sample, move, attempts=move.attempt - 1)
            sample.failing, sample.plan = failing.id, failing.plan
        sample.begun = self._round
        self._moves += 1
        self._left -= sample.reserved
        self._open.append(sample)
        return sample
