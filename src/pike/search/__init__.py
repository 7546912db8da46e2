"""What to try next: pure ask/tell strategies and their presets.

Knows steps, outcomes and option values. Does not know prompts, models, judges, files, clocks or threads.
"""

from pike.search.catalogue import info, make, most_queries, needs, options_of, presets, resolve
from pike.search.drive import drive, replay
from pike.search.preset import PresetInfo

__all__ = ["PresetInfo", "drive", "info", "make", "most_queries", "needs", "options_of", "presets", "replay", "resolve"]
