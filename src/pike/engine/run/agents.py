"""The agents of a run: which agent answers which role, and through which client.

Knows that a role has models, recipes (`none`) or a recorded run behind it, and that every call
passes the ledger. Does not know prompts, recipes or providers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pike import llm
from pike.core.agent import Agent
from pike.core.query import Answer, Query
from pike.core.rng import stream
from pike.core.settings.config import NONE, LlmConfig, RunConfig
from pike.core.step import Role
from pike.core.task import Task
from pike.engine.executors.exploring import Explorer
from pike.engine.run.configuration import search_terms
from pike.engine.state.ledger import Ledger, require_cap
from pike.engine.state.models import model_names, replayed, require_own_models
from pike.engine.state.replay import Recording, record_of
from pike.engine.state.run_state import RunState
from pike.llm.client import Client
from pike.llm.command import CommandClient
from pike.llm.confinement import Confinement
from pike.llm.given import ReplayClient
from pike.llm.provider.batch import BatchClient
from pike.store.schema import FILE_NAME

Connect = Callable[[str, LlmConfig], Client]


@dataclass(frozen=True, slots=True)
class Agents:
    """The models and recipes that a run can ask.

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

    def confine(self, folder: Path, task: Task) -> None:
        """Show commands no run beside the one in `folder`, and that one and its task read-only."""
        confinement = Confinement(folder, FILE_NAME, tuple(file.path for file in task.files))
        for client in self.clients.values():
            if isinstance(client, CommandClient):
                client.confine(confinement)

    async def aclose(self) -> None:
        """Close every connection."""
        await asyncio.gather(*(client.aclose() for client in self.clients.values()))

    def by_role(self, state: RunState, ledger: Ledger, recipes: Agent | None) -> dict[Role, Agent]:
        """The agent of each role."""
        for client in self.clients.values():
            if isinstance(client, BatchClient):
                client.go_on(ledger.keep, state.batches)
        unasked: Agent | None = self.recording or recipes
        askers = {
            role: self._asker(several, state, ledger) for role, several in self.names.items() if several != (NONE,)
        }
        agents: dict[Role, Agent] = {}
        if askers:
            from pike.agents import LlmAgent

            model: Agent = LlmAgent(askers)
            agents = dict.fromkeys(askers, model)
        if unasked is not None:
            agents |= {role: unasked for role in self.names if role not in agents}
        return agents

    def _asker(self, several: tuple[str, ...], state: RunState, ledger: Ledger) -> Callable[[Query], Awaitable[Answer]]:
        config = state.config

        async def ask(query: Query) -> Answer:
            paid = state.answers.get(query.step_id)
            if paid is not None:
                return paid
            # A single model, for example a replay, also answers steps that name another.
            named = state.steps[query.step_id].step.model if len(several) > 1 else ""
            client = self.clients[named or several[0]]
            chosen = config.llm
            limit = chosen.output_tokens(query.max_output_tokens)
            query = replace(query, effort=chosen.effort_of(query.role), max_output_tokens=limit)
            query = replace(query, top_p=chosen.top_p, top_k=chosen.top_k)
            rng = stream(config.engine.run_seed, f"retries of step {query.step_id}")
            return await llm.complete_with_retries(client, query, ledger, config.llm.max_attempts, rng)

        return ask


def assemble(config: RunConfig, connect: Connect = llm.connect) -> Agents:
    """Open the clients that a run's roles need; nothing is sent yet."""
    folder = replayed(config.llm)
    if folder is not None:
        recording = record_of(folder)
        name = config.llm.models(Role.OPTIMISE)[0]
        clients: dict[str, Client] = {name: ReplayClient(name, recording.answers)}
        return Agents(config, _recorded_names(recording, name), clients, recording)
    names = model_names(config.llm)
    require_own_models(config)
    distinct = dict.fromkeys(name for several in names.values() for name in several if name != NONE)
    clients = {name: connect(name, config.llm) for name in distinct}
    for client in clients.values():
        require_cap(config.budget, client)
    return Agents(config, names, clients)


def recipe_agent(explorer: Explorer, state: RunState) -> Agent:
    """The agent that needs no model."""
    from pike.recipes import RecipeAgent

    return RecipeAgent(lambda: explorer.explore(state.task, state.device, search_terms(state.config)))


def _recorded_names(recording: Recording, replay: str) -> dict[Role, tuple[str, ...]]:
    """`replay` for each role that asked models in the recorded run, `none` for the others."""
    config = recording.started.config.llm
    inner = replayed(config)
    names = _recorded_names(record_of(inner), replay) if inner else model_names(config)
    return {role: several if several == (NONE,) else (replay,) for role, several in names.items()}
