"""An estimate of the tokens that one query of each role takes, before anything is asked.

Knows the real prompts of a task and rules of thumb for answers, which fit the paper's runs within a
factor of two. Does not know prices or the number of queries (`engine`).
"""

from dataclasses import dataclass, replace

from pike.agents.prompts.fences import STREAM_CHARACTERS
from pike.agents.prompts.prompting import render
from pike.core.agent import Context, Prompt, PromptTerms
from pike.core.device import DeviceFacts
from pike.core.step import Candidate, Role, Solution, Step
from pike.core.task import Task
from pike.core.verdict.evaluation import EvaluateOptions, Evaluation, Status
from pike.llm.tokens import approximate_tokens

CANDIDATE_GROWTH = 1.5
"""Length of a candidate file over the length of the original model."""
LEAST_CANDIDATE_CHARACTERS = 4_000
"""Even a short model becomes a file of about a hundred lines with its kernel."""
THINKING_TOKENS = dict.fromkeys(Role, 4_000) | {Role.OPTIMISE: 6_000, Role.PLAN: 6_000}
"""Thinking and explanation of one answer, for a model that thinks."""
IDEAS_TOKENS = 1_500
WINDOW_NODES = {Role.PLAN: 4, Role.CODE: 4, Role.DEBUG: 2}
"""Other candidates in the window of a role of STARK, once its tree has grown."""
LOG_SHARE = 0.4
"""Diagnostics of a failing candidate, as a share of the most that is shown."""


@dataclass(frozen=True, slots=True)
class QueryEstimate:
    """The expected tokens of one query."""

    role: Role
    input_tokens: int
    output_tokens: int


def estimate(
    task: Task, device: DeviceFacts, options: EvaluateOptions, terms: PromptTerms
) -> tuple[QueryEstimate, ...]:
    """The estimate for one query of each role, in the order of `Role`."""
    size = max(LEAST_CANDIDATE_CHARACTERS, round(len(task.source) * CANDIDATE_GROWTH))
    log = "x" * round(2 * STREAM_CHARACTERS * LOG_SHARE)
    written = approximate_tokens("x" * size)
    found = []
    for role in Role:
        prompt = sample(role, Context(task, Step(0, role), device, options, terms=terms), "x" * size, log)
        answer = IDEAS_TOKENS if role is Role.BRAINSTORM else written
        asked = approximate_tokens(prompt.system + prompt.user)
        found.append(QueryEstimate(role, asked, answer + THINKING_TOKENS[role]))
    return tuple(found)


def sample(role: Role, known: Context, file: str, log: str) -> Prompt:
    """A typical prompt of a role: every candidate in it is `file`, and the refused one printed `log`.

    Args:
        role: who is asked.
        known: the task, the device and the terms; its step and its candidates do not count.
    """
    seed = Solution(Candidate("c0", file), Evaluation(Status.INFRA_ERROR))
    failing = Solution(Candidate("c1", file), Evaluation(Status.BUILD_ERROR, log=f"--- stderr ---\n{log}"))
    others = (Candidate(f"c{number}", file) for number in range(2, 2 + WINDOW_NODES.get(role, 0)))
    context = replace(
        known,
        step=Step(0, role, plan=file if role is Role.CODE else ""),
        seed=seed if role in (Role.OPTIMISE, Role.PLAN) else None,
        failing=failing if role.repairs else None,
        inspirations=tuple(Solution(other, Evaluation(Status.BUILD_ERROR, "refused")) for other in others),
    )
    return render(context)
