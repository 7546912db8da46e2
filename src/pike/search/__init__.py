"""What to try next: pure ask/tell strategies and their presets.

Knows steps, outcomes and option values. Does not know prompts, models, judges, files, clocks or
threads.
"""

from pike.search.bandit import over_models
from pike.search.drive import drive, replay
from pike.search.presets.catalogue import info, make, most_queries, needs, options_of, presets, resolve
from pike.search.presets.own import FREE_FORM
from pike.search.presets.preset import PresetInfo

__all__ = [
    "FREE_FORM",
    "PresetInfo",
    "drive",
    "info",
    "make",
    "most_queries",
    "needs",
    "options_of",
    "over_models",
    "presets",
    "replay",
    "resolve",
]
