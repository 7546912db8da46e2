"""What a run can be made of, for lists and help texts.

Knows which rooms keep the lists. Does not know what is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pike import search
from pike.core.config import StrategyConfig
from pike.search import PresetInfo

__all__ = ["PresetInfo", "check", "presets"]


def check(config: StrategyConfig) -> None:
    """Refuse a strategy that cannot be made.

    Raises:
        UserError: the preset or an option is unknown, or a value cannot be used.
    """
    search.resolve(config)


def presets(named: Mapping[str, Any] | None = None) -> tuple[PresetInfo, ...]:
    """Every strategy by name, with what makes it different; then those that a configuration names.

    Raises:
        UserError: one of those cannot be used.
    """
    return search.presets(named)
