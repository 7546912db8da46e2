"""What every strategy promises, as one test class.

Subclass `StrategyContract` and give it `build`; a preset joins by being listed in the catalogue (`test_contract.py`
runs the class over all of them).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
from search_worlds import (
    World,
    always,
    candidate_for,
    declining_agent,
    failing_agent,
    landscape,
    only_valid,
    valid,
)

from pike.core.step import ORIGINAL, Candidate, Outcome, Role, Step, Strategy
from pike.core.verdict.evaluation import Status
from pike.search.drive import Call, drive, replay
from pike.search.presets.preset import MOST_FREE_STEPS

BUDGETS = (0, 1, 9, 10, 11, 300)


def last(waiting: int) -> int:
    return waiting - 1


def shuffled(salt: int) -> Callable[[int], int]:
    return random.Random(salt).randrange


def steps_of(calls: tuple[Call, ...]) -> list[Step]:
    return [call for call in calls if isinstance(call, Step)]


def check_trace(calls: tuple[Call, ...], most_queries: int, admitted: tuple[str, ...] = ()) -> None:
    """Every rule that can be read off a finished trace."""
    known_valid, known_refused = {ORIGINAL, *admitted}, set()
    open_steps: set[int] = set()
    spent = 0
    for call in calls:
        if isinstance(call, Outcome):
            assert call.step_id in open_steps
            open_steps.remove(call.step_id)
            if call.candidate is not None and call.evaluation is not None:
                (known_valid if call.evaluation.valid else known_refused).add(call.candidate.id)
            continue
        open_steps.add(call.id)
        spent += call.queries
        assert spent <= most_queries, f"step {call.id} exceeds the budget of {most_queries}"
        assert call.queries >= 0
        assert call.seed in known_valid, f"seed {call.seed} was not told valid"
        assert set(call.inspirations) <= known_valid | known_refused
        assert (call.failing is None) == (call.attempt == 0)
        assert call.failing is None or call.failing in known_refused
    assert not open_steps
    assert [step.id for step in steps_of(calls)] == list(range(len(steps_of(calls))))


class StrategyContract:
    """Subclasses give `build`; `most_queries` only where an option allows more than the budget.

    `unspent` is the most that a finished run may leave over: 0, or one less than the cost of an indivisible move.
    `uses_seeds` says whether it ever starts from a solution from outside, `free` whether its steps cost nothing and the
    budget only bounds how many there are (a budget of zero then bounds nothing). Fewer `concurrencies`, `salts` and cuts make it
    quicker where many alike are looked at.
    """

    unspent = 0
    uses_seeds = True
    free = False
    concurrencies = tuple(range(1, 21))
    salts = (0, 1, 2)
    cut_every = 1

    def build(self, queries: int) -> Strategy:
        """A new strategy with this query budget and always the same run seed."""
        raise NotImplementedError

    def most_queries(self, queries: int) -> int:
        """The most it may spend."""
        return queries

    def used(self, calls: tuple[Call, ...]) -> int:
        """How much of the budget a trace used."""
        steps = steps_of(calls)
        return sum(step.role is not Role.BRAINSTORM if self.free else step.queries for step in steps)

    def finished(
        self, queries: int, world: World, concurrency: int = 1, pick: Callable[[int], int] = last
    ) -> tuple[Call, ...]:
        """A checked trace of a whole run."""
        strategy = self.build(queries)
        calls = drive(strategy, world, concurrency=concurrency, pick=pick)
        check_trace(calls, self.most_queries(queries))
        assert strategy.done
        assert strategy.ask() is None
        assert strategy.done
        return calls

    @pytest.mark.parametrize("queries", BUDGETS)
    def test_budget_is_spent_but_never_exceeded(self, queries: int) -> None:
        calls = self.finished(queries, landscape(1), concurrency=7, pick=shuffled(1))
        assert queries - self.unspent <= self.used(calls)
        assert not self.free or self.used(calls) <= (queries or MOST_FREE_STEPS)

    def test_always_finishes_in_whatever_order_outcomes_come(self) -> None:
        for concurrency in self.concurrencies:
            for salt in self.salts:
                self.finished(67, landscape(salt), concurrency, shuffled(salt))
            self.finished(67, landscape(3), concurrency, lambda waiting: 0)
            self.finished(67, landscape(3), concurrency, last)

    @pytest.mark.parametrize("world", [failing_agent, declining_agent])
    def test_agent_that_brings_nothing_ends_the_run_in_peace(self, world: World) -> None:
        for queries in BUDGETS:
            calls = self.finished(queries, world, concurrency=4, pick=shuffled(0))
            assert {step.seed for step in steps_of(calls)} <= {ORIGINAL}

    def test_every_status_is_survived(self) -> None:
        for status in Status:
            self.finished(45, always(status), concurrency=3, pick=shuffled(2))

    def test_few_valid_solutions_are_enough(self) -> None:
        for count in range(5):
            self.finished(60, only_valid([(0, sample) for sample in range(count)]), concurrency=5)

    def test_same_calls_same_decisions(self) -> None:
        random.seed(1)
        one = self.finished(90, landscape(5), concurrency=6, pick=shuffled(5))
        random.seed(2)
        assert self.finished(90, landscape(5), concurrency=6, pick=shuffled(5)) == one

    def test_reads_no_clock_and_no_entropy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise AssertionError("a strategy is pure")

        for place, name in ((time, "time"), (time, "monotonic"), (time, "perf_counter"), (random, "random")):
            monkeypatch.setattr(place, name, refuse)
        self.finished(40, landscape(6), concurrency=3, pick=lambda waiting: waiting // 2)

    def test_does_not_look_ahead(self) -> None:
        """Two runs that were told the same so far have decided the same so far."""
        told = 25
        before, after = landscape(7), landscape(8)
        count = 0

        def changing(step: Step) -> Outcome:
            nonlocal count
            count += 1
            return (before if count <= told else after)(step)

        one = self.finished(80, before, concurrency=5, pick=lambda waiting: waiting // 2)
        other = self.finished(80, changing, concurrency=5, pick=lambda waiting: waiting // 2)
        until = [index for index, call in enumerate(one) if isinstance(call, Outcome)][told]
        assert one[:until] == other[:until]

    def test_resumes_at_every_event(self) -> None:
        """Rebuilt from any prefix of what happened, it goes on as if nothing had been."""
        for salt in self.salts:
            calls = self.finished(47, landscape(salt), concurrency=6, pick=shuffled(salt))
            for cut in range(salt, len(calls), 7 if salt else self.cut_every):
                strategy = self.build(47)
                replay(strategy, calls[:cut])
                replay(strategy, calls[cut:])
                assert strategy.done

    def test_resumes_within_a_long_run(self) -> None:
        calls = self.finished(300, landscape(9), concurrency=10, pick=shuffled(9))
        for cut in range(0, len(calls), 61):
            strategy = self.build(300)
            replay(strategy, calls[:cut])
            replay(strategy, calls[cut:])

    def test_asking_in_vain_changes_nothing(self) -> None:
        """An ask that gave None is not journalled, so it must leave no trace."""
        calls = self.finished(47, landscape(4), concurrency=20, pick=shuffled(4))
        strategy = self.build(47)
        for call in calls:
            if isinstance(call, Step):
                assert strategy.ask() == call
                continue
            strategy.tell(call)
        assert strategy.done
        eager = self.build(47)
        recorded: list[Call] = []
        waiting: list[Step] = []
        while not eager.done:
            while (step := eager.ask()) is not None:
                recorded.append(step)
                waiting.append(step)
            for _ in range(3):
                assert eager.ask() is None
            recorded.append(landscape(4)(waiting.pop(0)))
            eager.tell(recorded[-1])
        replay(self.build(47), recorded)

    def test_done_is_exact(self) -> None:
        """It is not done while a step is out or another one will come, and is done at once after that."""
        strategy = self.build(30)
        world = landscape(10)
        waiting: list[Step] = []
        while True:
            while (step := strategy.ask()) is not None:
                assert not strategy.done
                waiting.append(step)
            if not waiting:
                break
            assert not strategy.done
            strategy.tell(world(waiting.pop()))
            if not waiting and strategy.done:
                assert strategy.ask() is None
        assert strategy.done
        assert self.build(0).done != self.free

    def test_an_outcome_is_told_once(self) -> None:
        strategy = self.build(10)
        step = strategy.ask()
        assert step is not None
        outcome = declining_agent(step)
        strategy.tell(outcome)
        with pytest.raises(ValueError, match="0"):
            strategy.tell(outcome)
        with pytest.raises(ValueError, match="99"):
            self.build(10).tell(Outcome(99))

    @pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
    def test_solutions_from_outside_are_free_and_usable(self, count: int) -> None:
        seeds = {f"r-{index}": 0.01 + index / 100 for index in range(count)}  # better than anything on the landscape
        strategy = self.build(61)
        for name, ms in seeds.items():
            strategy.admit(Candidate(name, f"# {name}"), valid(ms))
        calls = drive(strategy, landscape(11), concurrency=4, pick=shuffled(11))
        check_trace(calls, self.most_queries(61), tuple(seeds))
        assert any(step.seed in seeds for step in steps_of(calls)) == self.uses_seeds
        assert self.used(calls) >= 61 - self.unspent

    def test_only_valid_solutions_are_admitted_and_only_before_the_first_ask(self) -> None:
        strategy = self.build(10)
        with pytest.raises(ValueError, match="valid"):
            strategy.admit(Candidate("r-bad", "#"), always(Status.TIMEOUT)(Step(0, Role.OPTIMISE)).evaluation)  # type: ignore[arg-type]
        step = strategy.ask()
        assert step is not None
        with pytest.raises(ValueError, match="first ask"):
            strategy.admit(candidate_for(step), valid(1.0))
