"""A level made with a container engine: a file system of what the view allows, and nothing else.

Descriptors and the environment do not pass through an engine, so the child connects to a socket in its own folder and
its environment is put before its command. Does not know any engine's own words, nor what runs inside.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
import sys
from pathlib import Path

from pike.evaluate.sandbox import keeper, probe
from pike.evaluate.sandbox.apptainer import Apptainer
from pike.evaluate.sandbox.docker import Docker
from pike.evaluate.sandbox.engine import Engine
from pike.evaluate.sandbox.level import Cell, Claim
from pike.evaluate.sandbox.podman import Podman

ENGINES: tuple[Engine, ...] = (Podman(), Docker(), Apptainer())
"""All engines, in the order in which `auto` and `container` try them."""


class Container:
    """A container of one engine."""

    seen_with_cuda = False
    claims = frozenset(Claim)
    filters = False
    inherits = False

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def name(self) -> str:
        """The engine's name."""
        return self._engine.name

    def obstacle(self) -> str:
        """Why it does not work here: no engine, or a container does not start."""
        return _found(self._engine)[1]

    def command(self, cell: Cell, argv: list[str]) -> list[str]:
        """`podman run ... argv`, for example, below a process that keeps what the engine detaches."""
        return _command(self._engine, _found(self._engine)[0], cell, argv)

    def end(self, cell: Cell) -> None:
        """Remove what is left of the container (nothing, usually) and the folder that is its own."""
        discard(_root(self._engine, cell))


def discard(root: Path) -> None:
    """Remove the container that a folder belongs to, if it is one's, and the folder; returns without a word if not."""
    for engine in ENGINES:
        if root.name.endswith(_suffix(engine)) and root.is_dir():
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                engine.remove(root)
            shutil.rmtree(root, ignore_errors=True)


def _command(engine: Engine, variant: tuple[str, ...], cell: Cell, argv: list[str]) -> list[str]:
    root = _root(engine, cell)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    farewell = engine.farewell(root.name)
    keep = (sys.executable, "-I", "-S", str(keeper.__file__), str(len(farewell)), *farewell)
    environment = [f"{name}={value}" for name, value in cell.environment]
    return [*keep, *engine.run(variant, cell, root), "env", "-i", *environment, *argv]


def _root(engine: Engine, cell: Cell) -> Path:
    """A folder beside the child's own; its name is the container's, and tells whose that is."""
    return Path(cell.workdir + _suffix(engine))


def _suffix(engine: Engine) -> str:
    return f"-{engine.name}"


@functools.cache
def _found(engine: Engine) -> tuple[tuple[str, ...], str]:
    """Which variant of an engine works, and why none does."""
    if not shutil.which(engine.name):
        return (), f"{engine.name} is not installed"
    try:
        _sweep(engine)
        if why := engine.prepare():
            return (), f"{engine.name} does not work: {why}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return (), f"{engine.name} does not answer: {error}"
    reasons = []
    for variant in engine.variants:
        if not variant or shutil.which(variant[-1]):
            reasons.append(probe.tried(functools.partial(_command, engine, variant), Container(engine).end))
            if not reasons[-1]:
                return variant, ""
    return (), f"{engine.name} runs no container: {'; '.join(reasons)}"


def _sweep(engine: Engine) -> None:
    """Remove containers of judges that no longer live, whose folders may be gone already."""
    for name in engine.names():
        owner = name.split("-")[1] if name.startswith("pike-") and name.endswith(_suffix(engine)) else ""
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                engine.remove(Path(name))
