"""What takes part: contenders by name, fixed candidates, and guided searches over recipes.

Knows where candidates come from. Does not know when a cell has its turn or how it is judged.
"""

from pike.engine.schedule.contenders.candidates import FixedCandidate, absence, candidate_of, require_device
from pike.engine.schedule.contenders.histories import Histories
from pike.engine.schedule.contenders.naming import RECIPES, contenders_named
from pike.engine.schedule.contenders.recipe_search import RecipeLimits, keep_history

__all__ = [
    "RECIPES",
    "FixedCandidate",
    "Histories",
    "RecipeLimits",
    "absence",
    "candidate_of",
    "contenders_named",
    "keep_history",
    "require_device",
]
