"""How a child is held: the strongest level that this machine offers, said in words.

Knows which levels exist and how to choose one. A level knows how to wrap a command and what it does not enforce; it
does not know what the command is for. A further level is one file, listed once here.
"""

from __future__ import annotations

from pike.core.errors import UserError
from pike.evaluate.sandbox.bubblewrap import Bubblewrap
from pike.evaluate.sandbox.level import Cell, SandboxLevel
from pike.evaluate.sandbox.process import BareProcess

LEVELS: tuple[SandboxLevel, ...] = (Bubblewrap(), BareProcess())
"""All levels, strongest first."""


def choose(name: str) -> SandboxLevel:
    """The level called `name`, or for `auto` the strongest one that works here.

    Raises:
        UserError: the name is unknown or that level does not work on this machine.
    """
    if name == "auto":
        return next(level for level in LEVELS if not level.obstacle())
    for level in LEVELS:
        if level.name == name:
            if obstacle := level.obstacle():
                raise UserError(f"Sandbox '{name}' does not work here: {obstacle}; use --set evaluate.sandbox=auto")
            return level
    known = ", ".join(["auto", *(level.name for level in LEVELS)])
    raise UserError(f"Unknown sandbox '{name}'; known: {known}")


__all__ = ["LEVELS", "BareProcess", "Bubblewrap", "Cell", "SandboxLevel", "choose"]
