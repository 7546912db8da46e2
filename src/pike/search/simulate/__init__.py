"""A simulator to think with: a stochastic model of language models that edit programs, driving the real strategies.

Knows simulated tasks, programs, models and judges, with numbers fitted to published figures. Does not know prompts,
files, engines or real clocks. It is a model: it says which differences between strategies follow from how they search,
if programs behave as assumed here; only real runs decide (ADR 0011, docs/strategies.md).
"""

from pike.search.simulate.parameters import Parameters, fitted
from pike.search.simulate.study import Conditions, Cut, Geomean, Sample, asks_models, geomean, sample, samples, simulate
from pike.search.simulate.terrain import Landscape, suite
from pike.search.simulate.trial import Trial, run
from pike.search.simulate.world import Team, World

__all__ = [
    "Conditions",
    "Cut",
    "Geomean",
    "Landscape",
    "Parameters",
    "Sample",
    "Team",
    "Trial",
    "World",
    "asks_models",
    "fitted",
    "geomean",
    "run",
    "sample",
    "samples",
    "simulate",
    "suite",
]
