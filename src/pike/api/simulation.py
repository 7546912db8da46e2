"""The verb `simulate`: strategies compared in the simulator, without models, tasks or money.

Knows what can be asked for. Does not know how it is simulated (`engine`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pike.engine.comparison import LEVELS, Comparison, Simulated, comparable, compare

__all__ = ["LEVELS", "Simulated", "comparable", "simulate"]


def simulate(
    presets: Sequence[str] = (),
    *,
    repeats: int = 10,
    queries: int = 300,
    tasks: int = 30,
    level: str = "level3",
    recipe_seeds: bool = False,
) -> Iterator[Simulated]:
    """Compare strategies in a stochastic model of language models that edit programs.

    The model is fitted to the figures of the PIKE paper; what it says about anything else is a hypothesis
    (docs/strategies.md).

    Args:
        presets: strategies by name; none for all whose extras are installed.
        repeats: of the simulated suite, for each strategy; at least 2.
        queries: the query budget of a run.
        tasks: simulated tasks of the suite.
        level: `level3` or `level5`.
        recipe_seeds: give every strategy the recipes that work, free of queries.

    Returns:
        Each strategy's figures, in order, as soon as they are complete.

    Raises:
        UserError: a name or a value cannot be used, or a strategy needs an extra that is not installed.
    """
    names = tuple(presets) or comparable()[0]
    return compare(Comparison(names, repeats, queries, tasks, level, recipe_seeds))
