"""The simulator as a run's agents and judge, so that the real engine carries a simulated run out.

Knows how a simulated world answers an agent's question and a judge's. Does not know the model behind it
(`pike.search.simulate`). Money is not in it: nobody is paid for what is made up, and a strategy that learns from
prices compares per query here. For studies the driver without a journal is hundreds of times faster; this is for
seeing that both go the same way, and for rehearsing whatever surrounds a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pike.core.agent import Agent, Context, Proposal
from pike.core.device import DeviceFacts
from pike.core.evaluation import Effort, Evaluation, EvaluationRequest
from pike.core.step import Role
from pike.engine.executors import OnStage
from pike.engine.run import Wiring
from pike.search.simulate import World


class SimulatedAgent:
    """Writes what the world says a model would; judges by the same."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._verdicts: dict[str, tuple[str, Evaluation]] = {}

    async def act(self, context: Context) -> Proposal:
        """The world's answer to the step."""
        outcome = self._world.answer(context.step).outcome
        candidate, verdict = outcome.candidate, outcome.evaluation
        if candidate is None or verdict is None:
            return Proposal(ideas=outcome.ideas, text=outcome.text, failure=outcome.failure)
        self._verdicts[candidate.source] = (candidate.id, verdict)
        return Proposal(candidate.source, author=candidate.author)

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The world's verdict on what it wrote."""
        if on_stage is not None:
            on_stage("time")
        name, verdict = self._verdicts[request.source]
        if request.effort is Effort.FINAL:
            verdict = self._world.verdict(name, request.effort)
        return replace(verdict, tolerance=request.options.tolerance, precision=request.options.precision)

    async def facts(self, device: str) -> DeviceFacts:
        """A device that does not exist."""
        return DeviceFacts(device="cpu", name="simulated", versions=(("torch", "simulated"),))

    async def aclose(self) -> None:
        """Nothing to stop."""


def simulated(world: World) -> Wiring:
    """The wiring of a run whose every role and judge is simulated; it cannot be resumed, as its world is not kept."""
    everyone = SimulatedAgent(world)
    agents: Mapping[Role, Agent] = dict.fromkeys(Role, everyone)
    return Wiring(executor=everyone, load=None, agents=agents, handle_signals=False)
