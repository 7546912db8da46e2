"""The verbs that start no run: evaluate, lint, prompts, doctor and self_test.

Knows how a target and options become one request. Does not know how a verdict is reached.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pike.api.options import ConfigSource, Options, compose_config, given
from pike.api.targets import ExampleInputs, Target, task_for_now, words_for
from pike.api.task_list import remember
from pike.api.waiting import run_to_end
from pike.core.agent import Prompt
from pike.core.errors import StoreError, UserError, saying
from pike.core.settings.config import EngineConfig
from pike.core.task import Task
from pike.core.verdict.evaluation import Effort, Evaluation, EvaluationRequest, OnStage
from pike.core.verdict.lint import LintReport
from pike.engine import LocalExecutor
from pike.engine.executors.ray_workers import RAY, on_every_node
from pike.engine.tools.doctor import Check, examine
from pike.engine.tools.linting import lint_task
from pike.engine.tools.prompts import prompts_of
from pike.engine.tools.self_test import self_test as self_test


def evaluate(
    target: Target,
    source: str | Path,
    *,
    example_inputs: ExampleInputs | None = None,
    effort: Effort = Effort.SEARCH,
    profile: bool = False,
    on_stage: OnStage | None = None,
    device: str | None = None,
    tolerance: str | None = None,
    precision: str | None = None,
    config: ConfigSource | None = None,
    settings: Sequence[str] = (),
) -> Evaluation:
    """Judge one candidate: is it right, is it fast.

    >>> source = '''import torch
    ... class ModelNew(torch.nn.Module):
    ...     @classmethod
    ...     def from_reference(cls, model):
    ...         return model[0]  # without the activation
    ... '''
    >>> verdict = pike.evaluate(model, source, example_inputs=example)
    >>> verdict.status
    <Status.WRONG_OUTPUT: 'wrong-output'>

    Args:
        target: as for `optimize`.
        source: the text of the candidate, or a `Path` to its file.
        example_inputs: for a module, as for `optimize`.
        effort: how much measuring is done.
        profile: also say where the time of a valid candidate goes.
        on_stage: called with the name of each stage as it begins.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        tolerance: the rule of correctness, `strict` or `paper`.
        precision: the arithmetic that the candidate may use: `same`, `tf32` or `half`.
        config: a TOML file, or a whole configuration to start from.
        settings: `a.b=c` settings, which win over everything else.

    Raises:
        UserError: the target, an option or the candidate's path cannot be used.
    """
    terms = compose_config(words_for(target), given(locals())).evaluate
    with task_for_now(target, example_inputs) as task:
        request = EvaluationRequest(task, text_of(source), terms, effort, profile=profile)
        return run_to_end(judge_once(request, on_stage))


def lint(
    target: Target,
    *,
    example_inputs: ExampleInputs | None = None,
    device: str | None = None,
    precision: str | None = None,
    config: ConfigSource | None = None,
    settings: Sequence[str] = (),
) -> LintReport:
    """Say whether a task tests anything: trivial answers to it must all be refused.

    An answer is trivial if it needs no model, or only a part of it. The findings about a file are
    kept in the user's cache, for `pike tasks SUITE`. The options mean what they mean for `evaluate`.

    >>> pike.lint(model, example_inputs=example).sound
    True

    Args:
        target: as for `optimize`.
        example_inputs: for a module, as for `optimize`.

    Raises:
        UserError: the target or an option cannot be used.
        BoundaryError: the judge died.
    """
    terms = compose_config(words_for(target), given(locals())).evaluate
    with task_for_now(target, example_inputs) as task:
        found = lint_task(task, terms)
        with contextlib.suppress(StoreError):  # the answer is here, though the next lint repeats it
            remember(task, found, terms.precision)
    return found


def doctor(executor: str = "") -> tuple[Check, ...]:
    """Say what works on this machine, what is missing, and what to do; keys are never shown.

    With `ray` or `ray:ADDRESS` it says so of each node of a cluster.

    Args:
        executor: `ray` or `ray:ADDRESS`; empty for this machine.

    Raises:
        UserError: there is no such cluster.
        InfraError: a node does not answer.

    >>> [check.cure for check in pike.doctor() if check.needed and not check.ok]
    []
    """
    name, _, address = executor.partition(":")
    if name in ("", "local"):
        return examine()
    if name != RAY:
        raise UserError(f"pike doctor cannot look behind '{executor}': use ray or ray:ADDRESS")
    found = on_every_node(address, examine)
    return tuple(replace(check, name=f"{node}: {check.name}") for node, checks in found for check in checks)


def prompts(target: str, options: Options) -> tuple[str, dict[str, Prompt]]:
    """The version of a run's prompts, and a typical one of every role.

    Raises:
        UserError: the target or an option cannot be used.
    """
    terms = compose_config(target, options)

    async def made(task: Task) -> tuple[str, dict[str, Prompt]]:
        async with contextlib.aclosing(LocalExecutor(EngineConfig(judges=1))) as executor:
            return await prompts_of(task, terms, executor)

    with task_for_now(target, None) as task:
        return run_to_end(made(task))


async def judge_once(request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
    """The verdict of a judge that is started for it and ended afterwards."""
    async with contextlib.aclosing(LocalExecutor(EngineConfig(judges=1))) as executor:
        return await executor.evaluate(request, on_stage)


def text_of(source: str | Path) -> str:
    """The text of a candidate.

    Raises:
        UserError: its file cannot be read.
    """
    if isinstance(source, str):
        return source
    with saying(UserError, f"The candidate {source} cannot be read", "give the path of a Python file"):
        return source.read_text()
