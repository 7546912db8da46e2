"""Who writes candidates in a run: which agent answers which role, and through which client.

Knows that a role's model may be `none` (recipes), a provider's, or a recorded run's, and that every call passes the
ledger. Does not know prompts, recipes or providers. Names and keys are checked here before anything is spent.
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
        names: the model of each role, `none` for recipes.
        clients: one connection for each model, by name.
        recording: the run that is replayed, None if none is.
    """

    config: RunConfig
    names: Mapping[Role, str]
    clients: Mapping[str, Client]
    recording: Recording | None = None

    @property
    def uses_recipes(self) -> bool:
        """Whether a role or the seeding needs the recipe agent."""
        return self.recording is None and (NONE in self.names.values() or self.config.llm.seed_recipes)

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
        askers = {role: _asker(self.clients[name], memory, ledger) for role, name in self.names.items() if name != NONE}
        agents: dict[Role, Agent] = {}
        if askers:
            from pike.agents import LlmAgent

            model: Agent = LlmAgent(askers)
            agents = dict.fromkeys(askers, model)
        if unasked is not None:
            agents |= {role: unasked for role in self.names if role not in agents}
        return agents


def assemble(config: RunConfig, connect: Connect = llm.connect) -> Crew:
    """Open what a run's roles need; nothing is sent yet.

    Raises:
        UserError: a name has no known form, a run to replay is not there, a preset needs a model of its own for a
            role, or a money budget cannot be kept.
    """
    folder = replayed(config.llm)
    if folder is not None:
        recording = record_of(folder)
        return Crew(config, _recorded_names(recording, config.llm.coa), _replaying(recording, config), recording)
    names = model_names(config.llm)
    require_own_models(config)
    clients = {name: connect(name, config.llm) for name in dict.fromkeys(names.values()) if name != NONE}
    for client in clients.values():
        require_cap(config.budget, client)
    return Crew(config, names, clients)


def recipe_agent(original: Original, device: DeviceFacts, config: RunConfig) -> Agent:
    """The agent that needs no model."""
    from pike.recipes import RecipeAgent

    return RecipeAgent(original.reference, device, config.evaluate)


class RecordedAgent:
    """Repeats what a role without a model (recipes, which are free) proposed in a recorded run."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    async def act(self, context: Context) -> Proposal:
        """The recorded proposal of the step."""
        return self._recording.proposal(context.step.id)


def _replaying(recording: Recording, config: RunConfig) -> dict[str, Client]:
    return {config.llm.coa: ReplayClient(config.llm.coa, recording.answers)}


def _recorded_names(recording: Recording, replay: str) -> dict[Role, str]:
    """`replay` for each role that asked a model, `none` for the others; a replay of a replay is looked through."""
    config = recording.started.config.llm
    inner = replayed(config)
    names = _recorded_names(record_of(inner), config.coa) if inner else model_names(config)
    return {role: NONE if name == NONE else replay for role, name in names.items()}


def _asker(client: Client, memory: Memory, ledger: Ledger) -> Callable[[Query], Awaitable[Answer]]:
    config = memory.config

    async def ask(query: Query) -> Answer:
        paid = memory.answers.get(query.step_id)
        if paid is not None:
            return paid
        rng = stream(config.engine.run_seed, f"retries of step {query.step_id}")
        return await llm.complete_with_retries(client, query, ledger, config.llm.max_attempts, rng)

    return ask
