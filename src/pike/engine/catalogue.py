"""What a run can be made of, for lists and help texts.

Knows which rooms keep the lists. Does not know what is in them.
"""

from __future__ import annotations

from pike import search
from pike.search import PresetInfo

__all__ = ["PresetInfo", "presets"]


def presets() -> tuple[PresetInfo, ...]:
    """Every strategy by name, with what makes it different."""
    return search.presets()
