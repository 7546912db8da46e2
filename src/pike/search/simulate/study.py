"""Strategies on a simulated suite, many times over: what is compared, and the figures that come of it.

Knows conditions, repeats and their statistics. Does not know processes (`engine`) or how results are shown. A repeat of
a suite is one run on each of its tasks; its figure is the clamped geometric mean of their speedups, as published. The
same tasks and the same seeds are used for every strategy.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pike.core.budget import Budget
from pike.core.config import StrategyConfig
from pike.core.step import Role
from pike.search import catalogue
from pike.search.bandit import over_models
from pike.search.choices import Writer
from pike.search.simulate.parameters import Model, Parameters, fitted
from pike.search.simulate.terrain import Landscape, suite
from pike.search.simulate.trial import Trial, run
from pike.search.simulate.world import Team, World

TASKS = 30
"""Tasks of a simulated suite: as many as Level 3-pike has."""
NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under what a strategy runs.

    Attributes:
        strategy: preset and options.
        queries: the query budget of a run.
        concurrency: steps in flight at once.
        recipe_seeds: admit the recipes that work before the first query, also where the strategy does not say so.
        models: for roles with several models, their names in order of first trial: `strong`, `cheap`.
        cheap: roles that only the cheap model answers, beside those for which the preset needs a model of its own.
    """

    strategy: StrategyConfig
    queries: int = 300
    concurrency: int = 10
    recipe_seeds: bool = False
    models: Mapping[Role, tuple[str, ...]] = field(default_factory=dict)
    cheap: tuple[Role, ...] = ()


@dataclass(frozen=True, slots=True)
class Cut:
    """A budget at which a run is looked at; a run that costs less is looked at as it ended."""

    queries: float = math.inf
    usd: float = math.inf


@dataclass(frozen=True, slots=True)
class Sample:
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
        ci95: 95 % interval of `mean`: how well the simulation knows it.
        median: of single repeats.
        single95: between which 95 % of single repeats lie: what one real run of the suite can show.
    """

    mean: float
    ci95: tuple[float, float]
    median: float
    single95: tuple[float, float]


def asks_models(preset: str) -> bool:
    """Whether a preset asks models that a search steers: neither recipes alone nor an outside agent is simulated."""
    return dict(catalogue.info(preset).options).get("writer") == Writer.MODELS


def simulate(conditions: Conditions, place: Landscape, repeat: int, parameters: Parameters) -> Trial:
    """One run of a strategy on one simulated task."""
    team = _team(conditions, parameters)
    seeds = conditions.recipe_seeds or catalogue.needs(conditions.strategy).recipe_seeds
    strategy = catalogue.make(conditions.strategy, Budget(queries=conditions.queries), repeat)
    strategy = over_models(strategy, conditions.models, repeat)
    return run(
        strategy,
        World(parameters, place, team, repeat),
        concurrency=conditions.concurrency,
        recipe_seeds=seeds,
    )


def samples(
    conditions: Conditions, repeats: Sequence[int], cuts: Sequence[Cut], tasks: int = TASKS, level: str = "level3"
) -> list[Sample]:
    """The figures of whole repeats of the suite, in order of repeats, then tasks."""
    return sample(conditions, repeats, cuts, fitted(level), tasks)


def sample(
    conditions: Conditions, repeats: Sequence[int], cuts: Sequence[Cut], parameters: Parameters, tasks: int
) -> list[Sample]:
    """As `samples`, with the numbers given."""
    places = suite(parameters, tasks)
    return [
        _sample(simulate(conditions, place, repeat, parameters), repeat, cuts) for repeat in repeats for place in places
    ]


def geomean(found: Sequence[Sample], cut: int, *, observed: bool = False) -> Geomean:
    """The geometric mean over the suite at the cut with this index, with its intervals over repeats."""
    by_repeat: dict[int, list[float]] = {}
    for each in found:
        by_repeat.setdefault(each.repeat, []).append((each.observed if observed else each.gains)[cut])
    means = sorted(statistics.fmean(gains) for gains in by_repeat.values())
    mean = statistics.fmean(means)
    error = statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else math.inf
    half = min(error * NORMAL_95, 50.0)
    return Geomean(
        mean=math.exp(mean),
        ci95=(math.exp(mean - half), math.exp(mean + half)),
        median=math.exp(statistics.median(means)),
        single95=(math.exp(_quantile(means, 0.025)), math.exp(_quantile(means, 0.975))),
    )


def _quantile(ordered: Sequence[float], part: float) -> float:
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _team(conditions: Conditions, parameters: Parameters) -> Team:
    strong, cheap = parameters.strong, parameters.cheap
    named: dict[str, Model] = {model.name: model for model in (strong, cheap)}
    own = catalogue.info(conditions.strategy.preset).own_models
    return Team(strong, dict.fromkeys((*conditions.cheap, *own), cheap), named)


def _sample(trial: Trial, repeat: int, cuts: Sequence[Cut]) -> Sample:
    return Sample(
        repeat=repeat,
        gains=tuple(trial.gain(cut.queries, cut.usd) for cut in cuts),
        observed=tuple(trial.observed(cut.queries, cut.usd) for cut in cuts),
        usd=trial.points[-1].usd if trial.points else 0.0,
        failing=trial.repairs.failing,
        repaired=trial.repairs.repaired,
    )
