"""Which levels there are, and which one is taken. Knows their order; does not know how any of them works."""

from __future__ import annotations

from pike.core.errors import UserError
from pike.evaluate.sandbox.bubblewrap import Bubblewrap
from pike.evaluate.sandbox.container import Container
from pike.evaluate.sandbox.level import SandboxLevel
from pike.evaluate.sandbox.process import BareProcess

LEVELS: tuple[SandboxLevel, ...] = (Container(), Bubblewrap(), BareProcess())
"""All levels, strongest first."""


def choose(name: str, cuda: bool = False) -> SandboxLevel:
    """The level called `name`, or for `auto` the strongest one that works here.

    Args:
        name: `auto` or a level's name.
        cuda: the child needs a GPU, so `auto` takes none that was never seen to hold one.

    Raises:
        UserError: the name is unknown or that level does not work on this machine.
    """
    if name == "auto":
        return next(level for level in LEVELS if (level.seen_with_cuda or not cuda) and not level.obstacle())
    for level in LEVELS:
        if level.name == name:
            if obstacle := level.obstacle():
                raise UserError(f"Sandbox '{name}' does not work here: {obstacle}; use --set evaluate.sandbox=auto")
            return level
    known = ", ".join(["auto", *(level.name for level in LEVELS)])
    raise UserError(f"Unknown sandbox '{name}'; known: {known}")
