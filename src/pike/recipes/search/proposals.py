"""One composition for one problem, as a proposal.

Knows how to check, order and write it. Does not choose it (`agent`).
"""

from __future__ import annotations

from pike.core.agent import Proposal
from pike.core.errors import UserError
from pike.core.task import Task
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import look
from pike.recipes.framework.write import Adapted, write
from pike.recipes.registry import BY_NAME
from pike.recipes.search.composition import Names, broken_rule, ordered

AUTHOR = "recipes"


def compose(task: Task, problem: RecipeContext, names: Names) -> Proposal:
    """The candidate of a composition, or a proposal with the reason why there is none.

    Args:
        task: the problem as a task.
        problem: the same as recipes look at it.
        names: the recipes, in any order.

    Raises:
        UserError: a name is unknown, or the recipes exclude each other.
    """
    chosen = ordered(names)
    rule = broken_rule(chosen)
    if rule:
        raise UserError(f"The recipes {' + '.join(chosen)} do not go together: {rule}")
    looks = {name: look(BY_NAME[name], problem) for name in chosen}
    for name, found in looks.items():
        if found.declined:
            return Proposal(author=AUTHOR, recipes=chosen, failure=f"{name} declines: {found.declined}")
    return proposal(task, chosen, {name: found.keep for name, found in looks.items() if found.keep is not None})


def proposal(task: Task, names: Names, adapted: Adapted | None = None) -> Proposal:
    """The candidate of a legal composition whose recipes all apply.

    Args:
        task: the problem.
        names: the composition, in order.
        adapted: what the recipes adapt to the problem; the defaults of the recipes without it.
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
