"""Strategies on a simulated suite, many times over, and the figures of that.

Knows conditions, repeats and their statistics. Does not know processes (`engine`) or how results
are shown. A repeat of a suite is one run on each of its tasks; its figure is the clamped geometric
mean of their speedups, as published. Every strategy meets the same tasks and the same seeds.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pike import search
from pike.core.settings.budget import Budget
from pike.core.settings.config import StrategyConfig
from pike.core.step import Role
from pike.search.options.search import SearchOptions, Writer
from pike.simulate.parameters import Model, Parameters, fitted
from pike.simulate.run import SimulatedRun, run
from pike.simulate.tasks import SimulatedTask, suite
from pike.simulate.world import Team, World

TASKS = 30
"""Tasks of a simulated suite: as many as Level 3-pike has."""
NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a run.

    Attributes:
        strategy: preset and options.
        queries: the query budget of a run.
        concurrency: steps in flight at once.
        recipe_seeds: admit the recipes that work before the first query, for any strategy.
        models: for roles with several models, their names in order of first trial: `strong`,
            `cheap`.
        cheap: roles that only the cheap model answers, beside the `own_models` of the preset.
    """

    strategy: StrategyConfig
    queries: int = 300
    concurrency: int = 10
    recipe_seeds: bool = False
    models: Mapping[Role, tuple[str, ...]] = field(default_factory=dict)
    cheap: tuple[Role, ...] = ()


@dataclass(frozen=True, slots=True)
class StudyCut:
    """A budget at which a run is looked at; a run that costs less is looked at as it ended."""

    queries: float = math.inf
    usd: float = math.inf


@dataclass(frozen=True, slots=True)
class RunSample:
    """One run's figures.

    Attributes:
        repeat: which repeat of the suite.
        gains: at each cut, the logarithm of the re-measured speedup, clamped at 0.
        observed: the same from the search's own luckiest measurement, as the paper reports it.
        usd: what the whole run cost.
        failing: samples given to a role that repairs.
        repaired: those of them that became valid.
    """

    repeat: int
    gains: tuple[float, ...]
    observed: tuple[float, ...]
    usd: float
    failing: int
    repaired: int


@dataclass(frozen=True, slots=True)
class Geomean:
    """A clamped geometric mean of speedups over the repeats of a suite.

    Attributes:
        mean: over all repeats.
        ci95: 95 % interval of `mean`.
        median: of single repeats.
        single95: the interval of 95 % of single repeats, as one real run of the suite can show.
    """

    mean: float
    ci95: tuple[float, float]
    median: float
    single95: tuple[float, float]


def asks_models(preset: str) -> bool:
    """Whether a preset asks models; one that asks only recipes is not simulated."""
    options = search.options_of(StrategyConfig(preset))
    return isinstance(options, SearchOptions) and options.writer is Writer.MODELS


def simulate(conditions: Conditions, task: SimulatedTask, repeat: int, parameters: Parameters) -> SimulatedRun:
    """One run of a strategy on one simulated task."""
    seeds = conditions.recipe_seeds or search.needs(conditions.strategy).recipe_seeds
    strategy = search.make(conditions.strategy, Budget(queries=conditions.queries), repeat)
    strategy = search.over_models(strategy, conditions.models, repeat)
    world = World(parameters, task, _team(conditions, parameters), repeat)
    return run(strategy, world, concurrency=conditions.concurrency, recipe_seeds=seeds)


def sample(
    conditions: Conditions,
    repeats: Sequence[int],
    cuts: Sequence[StudyCut],
    parameters: Parameters | None = None,
    tasks: int = TASKS,
) -> list[RunSample]:
    """The figures of whole repeats of a suite, in order of repeats, then tasks.

    Args:
        conditions: what runs.
        repeats: numbers of the repeats, which decide their seeds.
        cuts: where each run is looked at.
        parameters: the numbers of the simulator; those fitted to Level 3 if None.
        tasks: size of the suite.
    """
    parameters = parameters or fitted()
    suite_ = suite(parameters, tasks)
    return [
        _sample(simulate(conditions, task, repeat, parameters), repeat, cuts) for repeat in repeats for task in suite_
    ]


def geomean(found: Sequence[RunSample], cut: int, *, observed: bool = False) -> Geomean:
    """The geometric mean over the suite at the cut with this index, with its intervals."""
    import numpy

    by_repeat: dict[int, list[float]] = {}
    for each in found:
        by_repeat.setdefault(each.repeat, []).append((each.observed if observed else each.gains)[cut])
    means = [statistics.fmean(gains) for gains in by_repeat.values()]
    mean = statistics.fmean(means)
    error = statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else math.inf
    half = min(error * NORMAL_95, 50.0)
    low, high = map(float, numpy.quantile(means, (0.025, 0.975)))
    return Geomean(
        mean=math.exp(mean),
        ci95=(math.exp(mean - half), math.exp(mean + half)),
        median=math.exp(statistics.median(means)),
        single95=(math.exp(low), math.exp(high)),
    )


def _team(conditions: Conditions, parameters: Parameters) -> Team:
    strong, cheap = parameters.strong, parameters.cheap
    named: dict[str, Model] = {model.name: model for model in (strong, cheap)}
    own = search.info(conditions.strategy.preset).own_models
    return Team(strong, dict.fromkeys((*conditions.cheap, *own), cheap), named)


def _sample(found: SimulatedRun, repeat: int, cuts: Sequence[StudyCut]) -> RunSample:
    return RunSample(
        repeat=repeat,
        gains=tuple(found.gain(cut.queries, cut.usd) for cut in cuts),
        observed=tuple(found.observed(cut.queries, cut.usd) for cut in cuts),
        usd=found.points[-1].usd if found.points else 0.0,
        failing=found.failing,
        repaired=found.repaired,
    )
