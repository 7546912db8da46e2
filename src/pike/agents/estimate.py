"""How many tokens one query of each role will take, before anything is asked.

Knows the real prompts of a task and rules of thumb for answers. Does not know prices or how many queries there
will be (`engine`). Prompts are rendered and counted at 4 characters a token. An answer is taken to be a file one and
a half times as long as the original model, plus thinking and explanation as below; the paper's runs (facts:
$25 for a few hundred queries of a thinking model) fit these figures within a factor of two.
"""

from __future__ import annotations

from dataclasses import dataclass

from pike.agents.fences import STREAM_CHARACTERS
from pike.agents.prompting import render
from pike.core.agent import Context
from pike.core.device import DeviceFacts
from pike.core.evaluation import EvaluateOptions, Evaluation, Status
from pike.core.step import Candidate, Role, Solution, Step
from pike.core.task import Task
from pike.llm.tokens import approximate_tokens

CANDIDATE_GROWTH = 1.5
"""Length of a candidate file over the length of the original model."""
LEAST_CANDIDATE_CHARACTERS = 4_000
"""Even a short model becomes a file of about a hundred lines with its kernel."""
THINKING_TOKENS = {
    Role.BRAINSTORM: 4_000,
    Role.OPTIMISE: 6_000,
    Role.FIX: 4_000,
    Role.PLAN: 6_000,
    Role.CODE: 4_000,
    Role.DEBUG: 4_000,
}
"""Thinking and explanation of one answer, for a model that thinks."""
IDEAS_TOKENS = 1_500
WINDOW_NODES = {Role.PLAN: 4, Role.CODE: 4, Role.DEBUG: 2}
"""Other candidates that a role of STARK is shown, once its tree has grown."""
LOG_SHARE = 0.4
"""Diagnostics of a failing candidate, as a share of the most that is shown of both streams."""


@dataclass(frozen=True, slots=True)
class QueryEstimate:
    """The expected tokens of one query.

    Attributes:
        role: who is asked.
        input_tokens: system prompt and prompt.
        output_tokens: the answer, thinking included.
    """

    role: Role
    input_tokens: int
    output_tokens: int


def estimate(task: Task, device: DeviceFacts, options: EvaluateOptions) -> tuple[QueryEstimate, ...]:
    """What one query of each role takes for a task, in the order of `Role`."""
    return tuple(_estimate(role, task, device, options) for role in Role)


def _estimate(role: Role, task: Task, device: DeviceFacts, options: EvaluateOptions) -> QueryEstimate:
    size = max(LEAST_CANDIDATE_CHARACTERS, round(len(task.source) * CANDIDATE_GROWTH))
    seed = Solution(Candidate("c0", "x" * size), Evaluation(Status.INFRA_ERROR))
    log = "x" * round(2 * STREAM_CHARACTERS * LOG_SHARE)
    failing = Solution(Candidate("c1", "x" * size), Evaluation(Status.BUILD_ERROR, log=f"--- stderr ---\n{log}"))
    others = (Candidate(f"c{number}", "x" * size) for number in range(2, 2 + WINDOW_NODES.get(role, 0)))
    context = Context(
        task=task,
        step=Step(0, role, plan="x" * size if role is Role.CODE else ""),
        device=device,
        options=options,
        seed=seed if role in (Role.OPTIMISE, Role.PLAN) else None,
        failing=failing if role.repairs else None,
        inspirations=tuple(Solution(other, Evaluation(Status.BUILD_ERROR, "refused")) for other in others),
    )
    prompt = render(context)
    written = IDEAS_TOKENS if role is Role.BRAINSTORM else approximate_tokens("x" * size)
    return QueryEstimate(role, approximate_tokens(prompt.system + prompt.user), written + THINKING_TOKENS[role])
