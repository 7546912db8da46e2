"""PIKE: PyTorch Inference Kernel Evolution.

Knows the names that people import from `pike` and where they live. Does not import any of them before it is used, so
that `import pike` costs nothing and needs neither torch nor an LLM package. Two verbs, `pike.evaluate` and
`pike.report`, share their name with a room; those rooms are made callable.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pike.api import (
        Campaign,
        Check,
        Estimate,
        Optimized,
        Options,
        campaign,
        doctor,
        estimate,
        evaluate,
        load,
        optimize,
        report,
        resume,
    )

__version__ = "0.1.0"

__all__ = [
    "Campaign",
    "Check",
    "Estimate",
    "Optimized",
    "Options",
    "__version__",
    "campaign",
    "doctor",
    "estimate",
    "evaluate",
    "load",
    "optimize",
    "report",
    "resume",
]

_ROOMS = frozenset({"evaluate", "report"})


class _Room(ModuleType):
    """A room that is also a verb: calling it calls the function of the same name in `pike.api`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from pike import api

        return getattr(api, self.__name__.rpartition(".")[2])(*args, **kwargs)


class _Package(ModuleType):
    """This package; importing a room sets it as an attribute here, whoever imports it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _ROOMS and type(value) is ModuleType:
            value.__class__ = _Room
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"pike.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'pike' has no attribute {name!r}")
    from pike import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)


sys.modules[__name__].__class__ = _Package
