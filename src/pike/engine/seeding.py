"""Recipes as seeds: valid compositions enter the library before the first query, free of queries.

Knows how to have the recipe agent try everything it has. Does not know any recipe.
"""

from __future__ import annotations

import asyncio

from pike.core.agent import Agent, Context, Proposal
from pike.core.evaluation import Evaluation
from pike.core.events import Admitted
from pike.core.step import Candidate, Role, Step, Strategy
from pike.engine.judging import Judging
from pike.engine.memory import Memory
from pike.engine.progress import Activity
from pike.engine.scribe import Scribe

MOST_SEEDS = 12
"""Compositions tried; the recipe agent gives the most promising ones first."""


async def admit_recipes(scribe: Scribe, judging: Judging, strategy: Strategy, agent: Agent) -> None:
    """Judge what the recipe agent has and admit what is valid.

    All seeds are admitted in one transaction, so that a resume finds either all of them or none.
    """
    candidates = await _compositions(scribe.memory, agent)
    verdicts = await asyncio.gather(*(_judge(scribe, judging, candidate) for candidate in candidates))
    found = [Admitted(c, verdict) for c, verdict in zip(candidates, verdicts, strict=True) if verdict.valid]
    if found:
        scribe.record(*found)
    admit(strategy, found)


def admit(strategy: Strategy, seeds: list[Admitted]) -> None:
    """Give seeds that are in the journal to the strategy."""
    for seed in seeds:
        strategy.admit(seed.candidate, seed.evaluation)


async def _compositions(memory: Memory, agent: Agent) -> list[Candidate]:
    found: dict[str, Candidate] = {}
    for index in range(MOST_SEEDS):
        proposal = await agent.act(_context(memory, index))
        if not proposal.source or proposal.refused or proposal.source in found:
            break
        found[proposal.source] = _candidate(proposal, index)
        if proposal.exhausted:
            break
    return list(found.values())


def _context(memory: Memory, index: int) -> Context:
    # No step of the search has this id, so that the agent takes what it gives here for given.
    step = Step(-1 - index, Role.OPTIMISE, sample=index, queries=0)
    return Context(memory.task, step, memory.device, memory.config.evaluate, memory.reference_ms)


def _candidate(proposal: Proposal, index: int) -> Candidate:
    name = "+".join(proposal.recipes) or str(index)
    return Candidate(f"r-{name}", proposal.source, author=proposal.author, note=proposal.note, recipes=proposal.recipes)


async def _judge(scribe: Scribe, judging: Judging, candidate: Candidate) -> Evaluation:
    def show(stage: str) -> None:
        scribe.board.set(Activity(candidate.id, None, 0, 0, 0, stage))

    show("waiting")
    try:
        return await judging.search(candidate.source, show)
    finally:
        scribe.board.drop(candidate.id)
