"""Who writes candidates in a run: which agent answers which role, and through which client.

Knows that a role's models may be `none` (recipes), a provider's, or a recorded run's, that a step may name which of
several is asked, and that every call passes the ledger. Does not know prompts, recipes or providers. Names and keys
are checked here before anything is spent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pike import llm
from pike.core.agent import Agent, Context, Proposal
from pike.core.config import LlmConfig, RunConfig
from pike.core.device import DeviceFacts
from pike.core.query import Answer, Query
from pike.core.rng import stream
from pike.core.step import Role
from pike.engine.ledger import Ledger, require_cap
from pike.engine.memory import Memory
from pike.engine.models import NONE, model_names, replayed, require_own_models
from pike.engine.originals import Original
from pike.engine.replay import Recording, record_of
from pike.llm.client import Client
from pike.llm.replay import ReplayClient

Connect = Callable[[str, LlmConfig], Client]


@dataclass(frozen=True, slots=True)
class Crew:
    """Who can be asked in a run.

    Attributes:
        config: everything that decides the run.
        names: the models of each role, first choice first; `none` alone for recipes.
        clients: one connection for each distinct model, by name.
        recording: the run that is replayed, None if none is.
    """

    config: RunConfig
    names: Mapping[Role, tuple[str, ...]]
    clients: Mapping[str, Client]
    recording: Recording | None = None

    @property
    def uses_recipes(self) -> bool:
        """Whether a role or the seeding needs the recipe agent."""
        return self.recording is None and ((NONE,) in self.names.values() or self.config.llm.seed_recipes)

    async def check(self) -> None:
        """Verify every key and model.

        Raises:
            UserError: a key is missing or refused, or a model is unknown.
            ProviderError: a provider could not be reached.
        """
        await asyncio.gather(*(client.check() for client in self.clients.values()))

    async def aclose(self) -> None:
        """Close every connection."""
        await asyncio.gather(*(client.aclose() for client in self.clients.values()))

    def agents(self, memory: Memory, ledger: Ledger, recipes: Agent | None) -> dict[Role, Agent]:
        """The agent of each role.

        Args:
            memory: the run's state; answers in it are never asked for again.
            ledger: passes every call.
            recipes: the recipe agent where one is used.
        """
        unasked: Agent | None = RecordedAgent(self.recording) if self.recording else recipes
        askers = {
            role: self._asker(several, memory, ledger) for role, several in self.names.items() if several != (NONE,)
        }
        agents: dict[Role, Agent] = {}
        if askers:
            from pike.agents import LlmAgent

            model: Agent = LlmAgent(askers)
            agents = dict.fromkeys(askers, model)
        if unasked is not None:
            agents |= {role: unasked for role in self.names if role not in agents}
        return agents

    def _asker(self, several: tuple[str, ...], memory: Memory, ledger: Ledger) -> Callable[[Query], Awaitable[Answer]]:
        config = memory.config

        async def ask(query: Query) -> Answer:
            paid = memory.answers.get(query.step_id)
            if paid is not None:
                return paid
            # Where there is one model, a replay's for example, it answers whatever the step names.
            named = memory.steps[query.step_id].step.model if len(several) > 1 else ""
            client = self.clients[named or several[0]]
            rng = stream(config.engine.run_seed, f"retries of step {query.step_id}")
            return await llm.complete_with_retries(client, query, ledger, config.llm.max_attempts, rng)

        return ask


def assemble(config: RunConfig, connect: Connect = llm.connect) -> Crew:
    """Open what a run's roles need; nothing is sent yet.

    Raises:
        UserError: a name has no known form, a run to replay is not there, a preset needs a model of its own for a
            role, or a money budget cannot be kept.
    """
    folder = replayed(config.llm)
    if folder is not None:
        recording = record_of(folder)
        name = config.llm.models(Role.OPTIMISE)[0]
        clients: dict[str, Client] = {name: ReplayClient(name, recording.answers)}
        return Crew(config, _recorded_names(recording, name), clients, recording)
    names = model_names(config.llm)
    require_own_models(config)
    distinct = dict.fromkeys(name for several in names.values() for name in several if name != NONE)
    clients = {name: connect(name, config.llm) for name in distinct}
    for client in clients.values():
        require_cap(config.budget, client)
    return Crew(config, names, clients)


def recipe_agent(original: Original, device: DeviceFacts, config: RunConfig) -> Agent:
    """The agent that needs no model."""
    from pike.recipes import RecipeAgent

    return RecipeAgent.of(original.reference, device, config.evaluate)


class RecordedAgent:
    """Repeats what a role without a model (recipes, which are free) proposed in a recorded run."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    async def act(self, context: Context) -> Proposal:
        """The recorded proposal of the step."""
        return self._recording.proposal(context.step.id)


def _recorded_names(recording: Recording, replay: str) -> dict[Role, tuple[str, ...]]:
    """`replay` for each role that asked models, `none` for the others; a replay of a replay is looked through."""
    config = recording.started.config.llm
    inner = replayed(config)
    names = _recorded_names(record_of(inner), replay) if inner else model_names(config)
    return {role: several if several == (NONE,) else (replay,) for role, several in names.items()}
