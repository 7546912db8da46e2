"""The simulator as a run's agents and judge, so that the real engine carries a simulated run out.

Knows how a simulated world answers an agent's question and a judge's. Does not know the model behind it
(`pike.simulate`). A simulated run costs no money, so a strategy that learns from prices compares per query.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from pike.core.agent import Agent, Context, Proposal
from pike.core.device import DeviceFacts
from pike.core.step import Role
from pike.core.verdict.evaluation import Effort, Evaluation, EvaluationRequest, OnStage, Status, Timing
from pike.engine.executors.contract import Executor
from pike.engine.run.wiring import Wiring
from pike.simulate import World
from pike.simulate.world import REFERENCE_MS


class SimulatedAgent(Executor):
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
            speedup = math.exp(self._world.final(name))
            timing = Timing(REFERENCE_MS, REFERENCE_MS / speedup, speedup, (speedup, speedup), 10, 100, 0.0)
            verdict = Evaluation(Status.VALID, timing=timing)
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
