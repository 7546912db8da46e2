"""A configuration as a user gives it, made whole before a run begins.

Knows that a strategy may be one the user named, and that a strategy may say who writes and where it starts. Does not
know any strategy or option (`search`).
"""

from __future__ import annotations

from dataclasses import replace

from pike import search
from pike.core.config import RunConfig
from pike.core.evaluation import EvaluateOptions
from pike.engine.models import NONE, replayed

RECIPE_HOURS = 1 / 6
"""How long recipes are tried where the user does not say: they cost nothing, and there are very many compositions."""
LEAST_SECONDS = 60.0
"""No limit on the time of a run makes the limit on one candidate shorter than this."""


def settle(config: RunConfig) -> RunConfig:
    """The configuration that is journalled: it means the same without the file that it comes from.

    The strategy is a preset with every option written out, still called what the user called it; where it writes with
    recipes or starts from them, `llm` says so. Recipes that write everything have a limit of time. Settling a settled
    configuration changes nothing.

    Raises:
        UserError: the strategy or an option cannot be used.
    """
    strategy = search.resolve(config.strategy, config.strategies)
    needs, llm = search.needs(strategy), config.llm
    engine = config.engine
    if needs.recipes_write and replayed(llm) is None:
        llm = llm.only(NONE)
        engine = replace(engine, max_hours=RECIPE_HOURS if engine.max_hours is None else engine.max_hours)
    if needs.recipe_seeds:
        llm = replace(llm, seed_recipes=True)
    return replace(config, strategy=strategy, strategies={}, llm=llm, engine=engine)


def while_searching(config: RunConfig) -> EvaluateOptions:
    """The terms on which a settled run's candidates are judged before they are finalists.

    Where recipes write everything, no candidate may take more than half of the time that the run has.
    """
    hours = config.engine.max_hours
    if hours is None or not search.needs(config.strategy).recipes_write:
        return config.evaluate
    seconds = max(LEAST_SECONDS, 1800.0 * hours)
    return replace(config.evaluate, timeout_seconds=min(config.evaluate.timeout_seconds, seconds))
