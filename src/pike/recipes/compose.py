"""One composition for one problem, as a proposal.

Knows how to check, order and write it. Does not choose it (`agent`).
"""

from __future__ import annotations

from typing import Any

import torch

from pike.core.agent import Proposal
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.evaluation import EvaluateOptions
from pike.core.task import Task
from pike.recipes.composition import Names, adaptations, broken_rule, ordered
from pike.recipes.recipe import Problem
from pike.recipes.registry import BY_NAME
from pike.recipes.write import Adapted, write

AUTHOR = "recipes"


def compose(
    task: Task,
    model: torch.nn.Module,
    example_args: tuple[Any, ...],
    example_kwargs: dict[str, Any],
    facts: DeviceFacts,
    names: Names,
    options: EvaluateOptions | None = None,
) -> Proposal:
    """The candidate of a composition, or a proposal with the reason why there is none.

    Args:
        task: the problem.
        model: the original, in eval mode, on the CPU.
        example_args: positional arguments of one call.
        example_kwargs: keyword arguments of one call.
        facts: the device that candidates run on.
        names: the recipes, in any order.
        options: the terms of the judge; the defaults without it.

    Raises:
        UserError: a name is unknown, or the recipes exclude each other.
    """
    chosen = ordered(names)
    rule = broken_rule(chosen)
    if rule:
        raise UserError(f"The recipes {' + '.join(chosen)} do not go together: {rule}")
    problem = Problem(model, example_args, example_kwargs, facts, options or EvaluateOptions())
    for name in chosen:
        reason = problem.unsteady or BY_NAME[name].declines(problem)
        if reason:
            return Proposal(author=AUTHOR, recipes=chosen, failure=f"{name} declines: {reason}")
    return proposal(task, chosen, adaptations(problem, chosen))


def proposal(task: Task, names: Names, adapted: Adapted | None = None) -> Proposal:
    """The candidate of a legal composition whose recipes all apply.

    Args:
        task: the problem.
        names: the composition, in order.
        adapted: what `adaptations` found; the defaults of the recipes without it.
    """
    recipes = tuple(BY_NAME[name] for name in names)
    try:
        source = write(task, recipes, adapted)
    except ValueError as error:
        return Proposal(author=AUTHOR, recipes=names, failure=str(error))
    note = "; ".join(recipe.summary for recipe in recipes)
    return Proposal(source=source, author=AUTHOR, note=note, recipes=names)


def idea(names: Names) -> str:
    """A composition as people and steps write it."""
    return " + ".join(names)


def from_idea(text: str | None) -> Names | None:
    """The composition that an idea names, None where it names none."""
    parts = [part.strip() for part in (text or "").split("+")]
    if not all(part in BY_NAME for part in parts):
        return None
    names = ordered(parts)
    return None if broken_rule(names) else names
