"""The strategies that a run can use, for lists, checks and help texts, as `search` keeps them."""

from pike.search import PresetInfo, presets, resolve

__all__ = ["PresetInfo", "presets", "resolve"]
