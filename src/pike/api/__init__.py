"""The verbs of PIKE for Python.

Knows what people can ask for and in which words. Does not know how anything is done (`engine`) nor terminals (`cli`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pike.api.campaigns import Campaign, campaign
from pike.api.options import Options, compose_config
from pike.api.verbs import (
    Check,
    Estimate,
    Optimized,
    Trial,
    doctor,
    estimate,
    evaluate,
    export,
    lint,
    load,
    optimize,
    report,
    resume,
    self_test,
)

if TYPE_CHECKING:
    from pike.api.dropin import DropIn

__all__ = [
    "Campaign",
    "Check",
    "DropIn",
    "Estimate",
    "Optimized",
    "Options",
    "Trial",
    "campaign",
    "compose_config",
    "doctor",
    "estimate",
    "evaluate",
    "export",
    "lint",
    "load",
    "optimize",
    "report",
    "resume",
    "self_test",
]


def __getattr__(name: str) -> Any:
    # The drop-in needs torch, which the other verbs leave to the judges.
    if name == "DropIn":
        from pike.api.dropin import DropIn

        return DropIn
    raise AttributeError(f"module 'pike.api' has no attribute {name!r}")
