"""Prompts for every role: from what an agent may look at to a system prompt and a user prompt.

Knows which template belongs to which role and what goes into it; the words themselves are Markdown files in
`templates/`. Does not know any model, and never shows a verdict's output as anything but fenced data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from pike.agents.anchors import BEGINS, ENDS
from pike.agents.fences import fence, printable, streams
from pike.agents.means import device_rows, means_of
from pike.agents.plans import anchored, drifted, improvable, instructions
from pike.agents.profiles import hotspot_table, profile_rows
from pike.agents.scores import score_table
from pike.agents.windows import window
from pike.core.agent import Context
from pike.core.evaluation import Status
from pike.core.step import Role, Solution
from pike.core.task import TaskKind

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one query says."""

    system: str
    user: str


def render(context: Context) -> Prompt:
    """The prompts for one step."""
    role = context.step.role.value
    values = _values(context)
    return Prompt(_template(f"system_{role}.md").render(values).strip(), _template(f"{role}.md").render(values).strip())


def _values(context: Context) -> dict[str, Any]:
    values: dict[str, Any] = {
        "task": context.task,
        "step": context.step,
        "device": context.device,
        "options": context.options,
        "reference_ms": context.reference_ms,
        "seed": context.seed,
        "inspirations": context.inspirations,
        "is_module": context.task.kind is TaskKind.MODULE,
        "means": means_of(context.device),
        "device_rows": device_rows(context.device),
        "minutes": _number(context.options.timeout_seconds / 60),
    }
    if context.step.role.repairs:
        values |= _diagnosis(context.failing)
    if context.step.role in (Role.PLAN, Role.CODE, Role.DEBUG):
        values |= _planning(context)
    return values


def _planning(context: Context) -> dict[str, Any]:
    plan = context.step.plan
    if context.step.role is Role.CODE and not plan.strip():
        raise ValueError("a coding step needs a plan")
    return {
        "begins": BEGINS,
        "ends": ENDS,
        "window": window(context),
        "improvable": improvable(context),
        "anchored": anchored(plan) is not None,
        "drifted": drifted(context.failing),
        "instructions": instructions(plan),
    }


def _diagnosis(failing: Solution | None) -> dict[str, Any]:
    if failing is None:
        raise ValueError("a fix needs the failing solution")
    evaluation = failing.evaluation
    return {
        "failing": failing,
        "status": evaluation.status.value,
        "verdict": printable(f"status: {evaluation.status.value}\nreason: {evaluation.reason or 'none given'}"),
        "error": evaluation.error if evaluation.status is Status.WRONG_OUTPUT else None,
        "streams": streams(evaluation.log),
    }


def _measured(solution: Solution) -> str:
    timing = solution.evaluation.timing
    if timing is None:
        return "Its time is not known."
    return (
        f"One call takes {_number(timing.candidate_ms)} ms where the original takes {_number(timing.reference_ms)} ms: "
        f"{timing.speedup:.2f} times as fast."
    )


def _number(value: float) -> str:
    return f"{value:.4g}"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        # Prompts are Markdown for a model: HTML escaping would damage the source code in them.
        autoescape=False,
    )
    environment.filters.update(
        fence=fence,
        measured=_measured,
        number=_number,
        hotspot_table=hotspot_table,
        profile_rows=profile_rows,
        score_table=score_table,
    )
    return environment


def _template(name: str) -> jinja2.Template:
    return _environment().get_template(name)
