"""Which sandbox levels there are, in their order, and which one is taken.

Does not know how any of them works.
"""

from collections.abc import Iterable
from pathlib import Path

from pike.core.errors import UserError
from pike.judge.sandbox.apptainer import Apptainer
from pike.judge.sandbox.bubblewrap import Bubblewrap
from pike.judge.sandbox.container import Container
from pike.judge.sandbox.docker import Docker
from pike.judge.sandbox.level import BareProcess, SandboxLevel
from pike.judge.sandbox.podman import Podman

CONTAINERS: tuple[Container, ...] = (Podman(), Docker(), Apptainer())
LEVELS: tuple[SandboxLevel, ...] = (*CONTAINERS, Bubblewrap(), BareProcess())
"""All levels, strongest first."""
_CONTAINER = "container"
"""Stands for a container of the first engine that works."""


def choose(name: str, cuda: bool = False, levels: Iterable[SandboxLevel] = LEVELS) -> SandboxLevel:
    """The level called `name`, or for `auto` the strongest one that works here.

    Args:
        name: `auto`, a level's name, or `container` for the first engine that works.
        cuda: the child needs a GPU, so `auto` skips levels that were never seen to hold one.
        levels: those to choose from, strongest first.

    Raises:
        UserError: the name is unknown or that level does not work on this machine.
    """
    if name == "auto":
        return next(level for level in levels if (level.works_with_cuda or not cuda) and not level.obstacle())
    wanted = [level for level in levels if name in (level.name, _CONTAINER if isinstance(level, Container) else "")]
    if not wanted:
        known = ", ".join(["auto", _CONTAINER, *(level.name for level in levels)])
        raise UserError(f"Unknown sandbox '{name}'; known: {known}")
    obstacles = []
    for level in wanted:
        if not (obstacle := level.obstacle()):
            return level
        obstacles.append(obstacle)
    why = "; ".join(obstacles)
    raise UserError(f"Sandbox '{name}' does not work here: {why}; use --set evaluate.sandbox=auto")


def discard(folder: Path) -> None:
    """Remove a container's folder and the container, if `folder` is one; otherwise do nothing."""
    for container in CONTAINERS:
        if container.owns(folder.name) and folder.is_dir():
            container.discard(folder)
