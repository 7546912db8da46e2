"""Prompts for every role: from the context of a step to a system prompt and a user prompt.

Knows which template belongs to which role, and its values. The words are Markdown files in
`templates/`. Does not know any model. Output of a candidate is shown only as fenced data.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from pike.agents.prompts.fences import fence, streams
from pike.agents.prompts.languages import kernel_languages
from pike.agents.prompts.tables import architecture, device_rows, hotspot_table, known_rows, profile_rows, score_table
from pike.agents.prompts.templates import Templates
from pike.agents.prompts.tracebacks import EXCEPTION, without_folders
from pike.agents.prompts.windows import failures, verdict_text, window
from pike.agents.reading.anchors import BEGINS, ENDS
from pike.agents.reading.plans import anchored, drifted, improvable, instructions
from pike.core.agent import Context, Prompt
from pike.core.errors import UserError
from pike.core.step import Role, Solution
from pike.core.task import TaskKind
from pike.core.text.printable import printable
from pike.core.verdict.evaluation import Status
from pike.llm.tokens import approximate_tokens

_COMPILING = re.compile(r"[Ee]rror building extension|CompilationError|nvcc fatal|: (?:fatal )?error: ")


class PromptTooLong(UserError):
    """The model's window is too small for a prompt."""


def render(context: Context) -> Prompt:
    """The prompts for one step, shortened to the model's window.

    Raises:
        PromptTooLong: the window is too small even for the shortest form.
        UserError: a template of the user's folder cannot be used.
    """
    prompt = _rendered(context)
    for shorter in _reductions(context):
        if _fits(prompt, context):
            return prompt
        prompt = _rendered(shorter)
    if not _fits(prompt, context):
        raise PromptTooLong(
            f"The shortest prompt of the role '{context.step.role.value}' takes about {_tokens(prompt)} tokens, and "
            f"a window of {context.terms.most_tokens} has room for {_room(context)} beside the answer: "
            "take a model with a larger window and raise prompt.most_tokens"
        )
    return prompt


def _rendered(context: Context) -> Prompt:
    role, folder = context.step.role.value, context.terms.folder
    values, templates = _values(context), _templates(folder)
    return Prompt(templates.render(f"system_{role}.md", values), templates.render(f"{role}.md", values))


def _reductions(context: Context) -> Iterator[Context]:
    """The context with less and less in it; the task, its terms, the seed and the error stay."""
    context = replace(context, terms=replace(context.terms, daring=False))
    yield context
    while context.inspirations:
        context = replace(context, inspirations=context.inspirations[:-1])
        yield context
    while context.failed:
        context = replace(context, failed=context.failed[:-1])
        yield context
    seed = context.seed and replace(context.seed, evaluation=replace(context.seed.evaluation, profile=None))
    context = replace(context, original_profile=None, known=(), seed=seed)
    yield context
    for most in (4_000, 1_000):
        if context.failing is not None:
            evaluation = replace(context.failing.evaluation, log=context.failing.evaluation.log[-most:])
            yield replace(context, failing=replace(context.failing, evaluation=evaluation))


def _tokens(prompt: Prompt) -> int:
    return approximate_tokens(prompt.system + prompt.user)


def _room(context: Context) -> int:
    """Tokens for the prompt: the window without the answer, for which a quarter is enough."""
    most = context.terms.most_tokens
    return most - min(context.step.max_output_tokens, most // 4)


def _fits(prompt: Prompt, context: Context) -> bool:
    return not context.terms.most_tokens or _tokens(prompt) <= _room(context)


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
        "languages": kernel_languages(context.device),
        "device_rows": device_rows(context.device),
        "arch": architecture(context.device),
        "minutes": _number(context.options.timeout_seconds / 60),
        "terms": context.terms,
        "examples": _examples(context),
        "failures": failures(context),
        "original_profile": context.original_profile,
        "known_rows": known_rows(context.known),
    }
    if context.step.role.repairs:
        values |= _diagnosis(context.failing)
    if context.step.role in (Role.PLAN, Role.CODE, Role.DEBUG):
        values |= _planning(context)
    return values


def _examples(context: Context) -> tuple[str, ...]:
    """Names of the worked examples that fit the machine, for a role that writes candidates."""
    if not context.terms.daring or context.step.role not in (Role.OPTIMISE, Role.CODE):
        return ()
    can, on_gpu = kernel_languages(context.device), context.device.is_cuda
    fits = {
        "cpp": can.cpp and not on_gpu,
        "nvrtc": can.nvrtc,
        "cuda": can.cuda,
        "triton": can.triton,
        "cuda_graph": on_gpu,
    }
    return tuple(name for name, works in fits.items() if works)


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
    shown = streams(evaluation.log)
    reason = without_folders(printable(evaluation.reason)).strip()
    reason_shown = bool(reason) and any(reason in stream.text for stream in shown)
    return {
        "failing": failing,
        "status": evaluation.status.value,
        "verdict": f"status: {evaluation.status.value}" if reason_shown else verdict_text(evaluation),
        "error": evaluation.error if evaluation.status is Status.WRONG_OUTPUT else None,
        "streams": shown,
        "reason_shown": reason_shown,
        "raised": EXCEPTION.match(evaluation.reason) is not None,
        "compiles": _COMPILING.search(evaluation.reason + evaluation.log) is not None,
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
def _templates(folder: str) -> Templates:
    filters: dict[str, Callable[..., Any]] = {"measured": _measured, "number": _number, "fence": fence}
    tables = (hotspot_table, profile_rows, score_table)
    return Templates(folder, filters | {table.__name__: table for table in tables})
