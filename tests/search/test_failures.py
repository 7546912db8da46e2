"""The refused candidates that a step shows."""

from pike import search
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import Candidate, Outcome, Role, Step
from pike.core.verdict.evaluation import Evaluation, Status


def all_refused(options, queries=14):
    """The steps of a search whose candidates are all refused."""
    strategy = search.make(StrategyConfig("pike-b:no-iba", options), Budget(queries=queries), 1)

    def refuse(step):
        return Outcome(step.id, Candidate(f"c{step.id}", "x", step.seed), Evaluation(Status.BUILD_ERROR, "no"))

    return [call for call in search.drive(strategy, refuse) if isinstance(call, Step)]


def chains(steps):
    """The repairs of each first candidate, in order."""
    of_sample = {}
    for step in steps:
        if step.role is Role.FIX:
            of_sample.setdefault((step.round, step.sample), []).append(step)
    return of_sample.values()


def test_a_repair_shows_the_earlier_ones_of_its_chain_newest_first():
    for repair in ({"kind": "immediate", "attempts": 4}, {"kind": "deferred", "attempts": 4, "share": 0.9}):
        options = {"pacing": {"samples": 2}, "repair": repair, "failures": 2}
        longest = max(chains(all_refused(options)), key=len)
        before = [step.failing for step in longest]
        assert len(before) == 4, repair
        for index, step in enumerate(longest):
            assert step.failed == tuple(reversed(before[:index]))[:2], repair


def test_a_rewrite_shows_what_failed_from_the_same_seed():
    steps = all_refused({"pacing": {"samples": 2}, "repair": "none", "failures": 3}, queries=6)
    assert [step.failed for step in steps] == [(), (), *[("c1", "c0")] * 2, *[("c3", "c2", "c1")] * 2]


def test_published_prompts_show_no_failures():
    assert not any(step.failed for step in all_refused({"pacing": {"samples": 2}}))
    assert not search.needs(StrategyConfig("pike-b")).daring
    assert search.needs(StrategyConfig("pike-b:daring")).daring
    assert search.needs(StrategyConfig("stark")).profile
    assert search.needs(StrategyConfig("pike-b")).repairs == 5
