"""The agent that needs no language model: it brainstorms, plans, optimises and fixes with recipes.

Knows how a step becomes a composition, and which compositions are on their way to a judge. Does not
know the recipes, nor how the next composition is chosen (`space`). What is costly (capturing the
model, asking every recipe) happens once, in a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace

from pike.core.agent import Context, Proposal
from pike.core.step import Role
from pike.recipes.search.composition import Names
from pike.recipes.search.costs import Costs
from pike.recipes.search.evidence import Evidence, at_the_floor, broken
from pike.recipes.search.explored import Explored
from pike.recipes.search.proposals import AUTHOR, from_idea, idea, proposal
from pike.recipes.search.space import Space

MOST_IDEAS = 10
ALL_TRIED = "every composition of recipes was tried"
TOO_LATE = "the verdicts on all other compositions would come too late"


class RecipeAgent:
    """Answers every role with compositions of recipes; no two steps of a run get the same one."""

    def __init__(self, explore: Callable[[], Explored]) -> None:
        """An agent for one problem.

        Args:
            explore: finds out about the problem; called once, in a thread, when it is first needed.
        """
        self._explore = explore
        self._lock = threading.Lock()
        self._found: Explored | None = None
        self._given: dict[int, Names] = {}

    async def act(self, context: Context) -> Proposal:
        """Answer one step: ideas, a plan (the names of recipes), a composition to try, or the
        repair of one."""
        space = (await asyncio.to_thread(self._explored)).space
        if context.step.role is Role.BRAINSTORM:
            ideas = tuple(idea(names) for names in space.ideas(MOST_IDEAS))
            return Proposal(ideas=ideas, author=AUTHOR, failure="" if ideas else self._nothing(), text=self._remarks())
        found = self._next(context, space)
        if context.step.role is Role.PLAN and found.source:
            return Proposal(text=idea(found.recipes), author=AUTHOR, note=found.note)
        return found

    def declined(self) -> dict[str, str]:
        """Why each recipe does not apply; empty where it does. Takes seconds the first time."""
        return dict(self._explored().declined)

    def _explored(self) -> Explored:
        with self._lock:
            if self._found is None:
                self._found = self._explore()
            return self._found

    def _next(self, context: Context, space: Space) -> Proposal:
        """The first choice that can be written and that no other step was given."""
        tried = {solution.candidate.recipes for solution in context.known if solution.candidate.recipes}
        tried |= {names for id_, names in self._given.items() if id_ != context.step.id}
        done, failure = at_the_floor(context.known, space.decisive), ""
        if done:
            return Proposal(author=AUTHOR, failure=done, exhausted=True)
        costs = Costs(space.seconds, context.known)
        late = set(costs.late(context, self._on_their_way(context), set(space.ranked) - tried))
        hopeful = space if context.step.role.repairs else space.without(broken(context.known))
        while not space.exhausted(tried | late):
            hopeful = space if hopeful.exhausted(tried | late) else hopeful
            names = _choice(context, hopeful, tried | late)
            if names is None:
                return Proposal(author=AUTHOR, failure="no other composition repairs this one")
            found = proposal(context.task, names, self._explored().adapted)
            if found.source:
                if context.step.role is not Role.PLAN:
                    self._given[context.step.id] = names
                return replace(found, expected_seconds=round(costs.expected(names), 1))
            failure = found.failure
            tried.add(names)
        why = failure or (self._nothing() if not space.ranked else TOO_LATE if late else ALL_TRIED)
        return Proposal(author=AUTHOR, failure=why, exhausted=True)

    def _on_their_way(self, context: Context) -> list[Names]:
        """The compositions of other steps that have no verdict yet."""
        judged = {solution.candidate.recipes for solution in context.known}
        return [names for id_, names in self._given.items() if id_ != context.step.id and names not in judged]

    def _remarks(self) -> str:
        """Which recipes do not apply and why, one on a line."""
        return "\n".join(f"{name}: {reason}" for name, reason in self._explored().declined.items() if reason)

    def _nothing(self) -> str:
        reasons = sorted(set(self._explored().declined.values()))
        return f"no recipe applies: {reasons[0] if len(reasons) == 1 else '; '.join(reasons)}"


def _choice(context: Context, space: Space, tried: set[Names]) -> Names | None:
    step = context.step
    if step.role.repairs and context.failing is not None and context.failing.candidate.recipes:
        failing = context.failing
        names = space.restored([failing], tried)
        return names or space.repair(failing.candidate.recipes, failing.evaluation, tried | {failing.candidate.recipes})
    wanted = from_idea(step.plan if step.role is Role.CODE else step.idea)
    if wanted is not None and wanted not in tried and space.applies(wanted):
        return wanted
    restored = space.restored(context.known, tried)
    if restored is not None:
        return restored
    seed = context.seed.candidate.recipes if context.seed else ()
    seed = seed or (wanted or ())
    if seed:
        return space.next_to(seed, tried | {seed}, Evidence(space.gain, context.known, context.device.is_cuda))
    return space.next_ranked(tried, step.round, step.sample)
