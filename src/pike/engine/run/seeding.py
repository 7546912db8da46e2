"""Recipes as seeds: valid compositions enter the library before the first query.

Knows how to ask the recipe agent for its most promising compositions, and that runs of a campaign have
the same ones. Does not know any recipe.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace
from functools import partial

from pike.core.agent import Agent, Context, Proposal
from pike.core.events import Admitted
from pike.core.step import Candidate, Role, Step, Strategy
from pike.core.verdict.evaluation import Evaluation
from pike.engine.run.judging import Judging
from pike.engine.state.journal_writer import JournalWriter
from pike.engine.state.run_state import NOT_REUSED, RunState


class SharedSeeds:
    """Verdicts on seeds, reached once for all runs of one task on the same terms in one process."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Evaluation] = {}
        self._locks: defaultdict[Hashable, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def verdict(self, key: Hashable, judge: Callable[[], Awaitable[Evaluation]]) -> Evaluation:
        """What is known of a seed, else what `judge` finds; a judge that failed is asked again by the next run."""
        async with self._locks[key]:
            found = self._found.get(key) or await judge()
            if found.status not in NOT_REUSED:
                self._found[key] = found
            return found


async def admit_recipes(
    writer: JournalWriter, judging: Judging, strategy: Strategy, agent: Agent, shared: SharedSeeds
) -> None:
    """Judge the recipe agent's compositions and admit each valid one as its verdict comes.

    A run that stops meanwhile keeps what it admitted, and judges only the others when it goes on.
    """

    async def judged(candidate: Candidate) -> None:
        config = writer.state.config
        profiles = config.prompt.profile, config.llm.asks_models
        key = writer.state.task, config.evaluate, profiles, candidate.source
        verdict = await shared.verdict(key, lambda: _judge(writer, judging, candidate))
        if verdict.valid:
            seed = Admitted(candidate, verdict)
            writer.record(seed)
            admit(strategy, [seed])

    found = await _compositions(writer.state, agent)
    await asyncio.gather(*(judged(candidate) for candidate in found if candidate.id not in writer.state.solutions))


def admit(strategy: Strategy, seeds: list[Admitted]) -> None:
    """Give journalled seeds to the strategy."""
    for seed in seeds:
        strategy.admit(seed.candidate, seed.evaluation)


async def _compositions(state: RunState, agent: Agent) -> list[Candidate]:
    found: dict[str, Candidate] = {}
    for index in range(state.config.engine.recipe_seeds):
        proposal = await agent.act(_context(state, index))
        if not proposal.source or proposal.refused or proposal.source in found:
            break
        found[proposal.source] = _candidate(proposal, index)
        if proposal.exhausted:
            break
    return list(found.values())


def _context(state: RunState, index: int) -> Context:
    # No step of the search has a negative id, so the agent does not propose these compositions again.
    step = Step(-1 - index, Role.OPTIMISE, sample=index, queries=0)
    return Context(state.task, step, state.device, state.config.evaluate, state.reference_ms)


def _candidate(proposal: Proposal, index: int) -> Candidate:
    name = "+".join(proposal.recipes) or str(index)
    candidate = Candidate(f"r-{name}", proposal.source, author=proposal.author, note=proposal.note)
    return replace(candidate, recipes=proposal.recipes, expected_seconds=proposal.expected_seconds)


async def _judge(writer: JournalWriter, judging: Judging, candidate: Candidate) -> Evaluation:
    show = partial(writer.board.judging, candidate.id)
    show("waiting")
    try:
        return await judging.search(candidate, show)
    finally:
        writer.board.drop(candidate.id)
