"""A simulator: a stochastic model of language models that drives the real strategies (ADR 0011).

Knows simulated tasks, programs, models and judges, with numbers fitted to published figures. Does
not know prompts, files, engines or real clocks. Only real runs decide.
"""

from pike.simulate.parameters import Parameters, fitted
from pike.simulate.run import SimulatedRun
from pike.simulate.study import Conditions, Geomean, RunSample, StudyCut, asks_models, geomean, sample, simulate
from pike.simulate.tasks import suite
from pike.simulate.world import Team, World

__all__ = [
    "Conditions",
    "Geomean",
    "Parameters",
    "RunSample",
    "SimulatedRun",
    "StudyCut",
    "Team",
    "World",
    "asks_models",
    "fitted",
    "geomean",
    "sample",
    "simulate",
    "suite",
]
