"""Strategies compared in the simulator, without models, tasks or money.

Knows which of the engine's names the command needs. Does not know how a run is simulated.
"""

from pike.engine.tools.comparison import LEVELS, RunComparison, SimulatedPreset, comparable, compare

__all__ = ["LEVELS", "RunComparison", "SimulatedPreset", "comparable", "compare"]
