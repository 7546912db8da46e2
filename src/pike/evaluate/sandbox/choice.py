"""Which levels there are, and which one is taken. Knows their order; does not know how any of them works."""

from __future__ import annotations

from pike.core.errors import UserError
from pike.evaluate.sandbox.bubblewrap import Bubblewrap
from pike.evaluate.sandbox.container import ENGINES, Container
from pike.evaluate.sandbox.level import SandboxLevel
from pike.evaluate.sandbox.process import BareProcess

LEVELS: tuple[SandboxLevel, ...] = (*(Container(engine) for engine in ENGINES), Bubblewrap(), BareProcess())
"""All levels, strongest first."""
_CONTAINER = "container"
"""The word for a container of whichever engine works."""


def choose(name: str, cuda: bool = False) -> SandboxLevel:
    """The level called `name`, or for `auto` the strongest one that works here.

    Args:
        name: `auto`, a level's name, or `container` for whichever engine works.
        cuda: the child needs a GPU, so `auto` takes none that was never seen to hold one.

    Raises:
        UserError: the name is unknown or that level does not work on this machine.
    """
    if name == "auto":
        return next(level for level in LEVELS if (level.seen_with_cuda or not cuda) and not level.obstacle())
    wanted = [level for level in LEVELS if name in (level.name, _CONTAINER if isinstance(level, Container) else "")]
    if not wanted:
        known = ", ".join(["auto", _CONTAINER, *(level.name for level in LEVELS)])
        raise UserError(f"Unknown sandbox '{name}'; known: {known}")
    obstacles = []
    for level in wanted:
        if not (obstacle := level.obstacle()):
            return level
        obstacles.append(obstacle)
    why = "; ".join(obstacles)
    raise UserError(f"Sandbox '{name}' does not work here: {why}; use --set evaluate.sandbox=auto")
