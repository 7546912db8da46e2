"""Branching search (PIKE-B): rounds of queries on the fastest solutions, each sample repaired until it is valid.

Knows which step comes next. Does not know prompts, models, money, clocks or where candidates run.

One run: the brainstorming agent is asked once (free of queries); round 0 asks for one candidate per idea;
every later round shares its queries over the fastest solutions, the original model filling one slot
while there are too few. A sample whose candidate is refused is repaired up to `fix_attempts` times, at once and
beside the other samples. Decided here, because no source says it:

- A fix repairs the sample's latest candidate that holds code (the latest at all if none does), for the sample's seed.
- A sample closes when it is valid, out of attempts, out of budget, when its agent brought nothing, or when the judge
  itself failed (`infra-error`): a repair cannot help there.
- A waiting fix is asked before a first query, as it is the longest chain that a round waits for.
- With less budget than a round needs, a shorter round is shared over the same slots.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pike.core.budget import Budget
from pike.core.evaluation import Evaluation, Status
from pike.core.step import ORIGINAL, Candidate, Outcome, Role, Step
from pike.search.allocation import Phase, Sample, may_fix, plan_ideas, plan_seeds, with_original
from pike.search.library import Library, Member, admitted
from pike.search.options import (
    BranchingOptions,
    BudgetCheck,
    Diversity,
    Duplicates,
    FixOrder,
    Memory,
    Seeding,
)
from pike.search.preset import Preset


class Branching:
    """The `Strategy` of the PIKE-B family (arXiv 2511.16964); draws nothing at random.

    With `round_end` `all`, what is decided does not depend on the order in which outcomes of steps in flight are
    told: only the ids differ, as they count in order of asking.
    """

    def __init__(self, options: BranchingOptions, queries: int) -> None:
        """Prepare a search.

        Args:
            options: all dials.
            queries: the query budget.
        """
        self._options = options
        self._left = queries
        self._blank = Step(
            0, Role.OPTIMISE, temperature=options.temperature, max_output_tokens=options.max_output_tokens
        )
        self._library = Library(options)
        self._admitted = 0
        self._asked = 0
        self._round = -1
        self._to_close = 0
        self._open: list[Sample] = []
        self._in_flight: dict[int, Sample | None] = {}

    @property
    def done(self) -> bool:
        """True when nothing is in flight and `ask` will never give another step."""
        return not self._in_flight and not self._open and self._left <= 0

    def admit(self, candidate: Candidate, evaluation: Evaluation) -> None:
        """Take a valid solution from outside, before the first ask.

        Raises:
            ValueError: it is not valid, or a step was asked already.
        """
        if evaluation.candidate_ms is None or self._asked:
            raise ValueError(f"{candidate.id} must be valid and come before the first ask")
        self._library.add(admitted(candidate, evaluation.candidate_ms, self._admitted))
        self._admitted += 1

    def ask(self) -> Step | None:
        """The next step that can start now, or None."""
        if self._left <= 0 and not self._open:
            return None
        if self._asked == 0 and self._options.ideas:
            return self._issue(None)
        if self._round < 0:
            if self._in_flight:
                return None
            self._begin_round(())
        sample = self._next()
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
            self._begin_round(outcome.ideas)
        else:
            self._learn(sample, outcome)
            self._settle()

    def _next(self) -> Sample | None:
        """The sample whose next step can start: fixes first. Which of several is asked first decides nothing."""
        limit, order = self._options.fix_attempts, self._options.fix_order
        for sample in self._open:
            if sample.phase is Phase.FAILED and may_fix(sample, self._open, self._left, limit, order):
                return sample
        return next((sample for sample in self._open if sample.phase is Phase.PLANNED), None)

    def _issue(self, sample: Sample | None) -> Step:
        """The next step of `sample` (None for brainstorming), from now on in flight."""
        step = replace(self._blank, id=self._asked, **self._what(sample))
        self._asked += 1
        self._in_flight[step.id] = sample
        return step

    def _what(self, sample: Sample | None) -> dict[str, Any]:
        """The fields of the next step of `sample`, which starts running and pays for a fix."""
        if sample is None:
            return {"role": Role.BRAINSTORM, "queries": 0}
        what = {"round": sample.round, "sample": sample.index, "seed": sample.seed}
        fixing = sample.phase is Phase.FAILED
        sample.phase = Phase.RUNNING
        if not fixing:
            return {**what, "idea": sample.idea}
        self._left -= 1
        sample.attempts += 1
        return {**what, "role": Role.FIX, "failing": sample.failing, "attempt": sample.attempts}

    def _learn(self, sample: Sample, outcome: Outcome) -> None:
        candidate, evaluation = outcome.candidate, outcome.evaluation
        if candidate is None or evaluation is None or evaluation.status is Status.INFRA_ERROR:
            self._close(sample)
        elif evaluation.candidate_ms is not None:
            place = (sample.round, sample.index, sample.attempts)
            self._library.add(Member(evaluation.candidate_ms, *place, candidate.id, sample.seed, candidate.source))
            self._close(sample)
        elif sample.attempts >= self._options.fix_attempts:
            self._close(sample)
        else:
            has_code = bool(candidate.source.strip())
            if has_code or not sample.failing_has_code:
                sample.failing, sample.failing_has_code = candidate.id, has_code
            sample.phase = Phase.FAILED

    def _close(self, sample: Sample) -> None:
        sample.phase = Phase.CLOSED
        self._open.remove(sample)
        if sample.round == self._round:
            self._to_close -= 1

    def _settle(self) -> None:
        """Close what the budget starves, and begin the next round when this one is over."""
        self._starve()
        if self._to_close <= 0 and self._left > 0:
            self._begin_round(())
            self._starve()

    def _starve(self) -> None:
        if self._left <= 0:
            for sample in [sample for sample in self._open if sample.phase is Phase.FAILED]:
                self._close(sample)

    def _begin_round(self, ideas: tuple[str, ...]) -> None:
        options = self._options
        self._round += 1
        whole = options.budget_check is BudgetCheck.ROUND
        size = options.queries_per_round if whole else min(options.queries_per_round, self._left)
        seeds = plan_seeds(self._slots(), size)
        planned = zip(seeds, plan_ideas(ideas, size), strict=True)
        self._open += [Sample(self._round, index, seed, idea) for index, (seed, idea) in enumerate(planned)]
        self._left -= size
        self._to_close = options.samples_to_wait_for(size)
        if self._round > 0 or options.seeding is not Seeding.ORIGINAL:
            self._library.turn()

    def _slots(self) -> tuple[str, ...]:
        """The seed slots of the round that begins."""
        top_k, seeding = self._options.top_k, self._options.seeding
        if self._round == 0 and (seeding is Seeding.ORIGINAL or not self._admitted):
            return (ORIGINAL,)
        if self._round == 0 and seeding is Seeding.BOTH:
            return (*self._library.seeds(max(1, top_k - 1)), ORIGINAL)
        return with_original(self._library.seeds(top_k), top_k)


BranchingPreset = Preset[BranchingOptions]


def _build(options: BranchingOptions, budget: Budget, _run_seed: int) -> Branching:
    return Branching(options, budget.queries)


def _preset(name: str, summary: str, options: BranchingOptions, own_models: tuple[Role, ...] = ()) -> BranchingPreset:
    return Preset(
        name, summary, options, _build, lambda chosen, budget: chosen.most_queries(budget.queries), own_models
    )


PRESETS: tuple[BranchingPreset, ...] = (
    _preset("pike-b", "branching search as published, but never above the budget", BranchingOptions()),
    _preset(
        "pike-b:cheap-efa",
        "pike-b with a cheaper model of your choice for error fixing",
        BranchingOptions(),
        own_models=(Role.FIX,),
    ),
    _preset("pike-b:no-efa", "pike-b without error fixing", BranchingOptions(fix_attempts=0)),
    _preset("pike-b:no-iba", "pike-b without brainstormed ideas", BranchingOptions(ideas=False)),
    _preset(
        "pike-b:elitist",
        "pike-b that never forgets its best, spreads over branches and shares fixes fairly",
        BranchingOptions(
            memory=Memory.RUN,
            diversity=Diversity.DISTINCT,
            per_branch=2,
            fix_order=FixOrder.FAIR,
            duplicates=Duplicates.ONCE,
        ),
    ),
)
"""The presets of this family, its plain form first. `round_end` stays `all` in every one: a quorum makes a run
depend on how long evaluations take, which no comparison at equal budget can use."""
