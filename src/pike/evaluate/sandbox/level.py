"""The contract of a sandbox level.

Knows what a level is given (a cell: folders, limits) and what it must say about itself. Does not know any level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Cell:
    """What one child may see and use.

    Attributes:
        workdir: its own folder, the only place it may write to.
        readable: files and folders it must be able to read (Python, torch, weights).
        cuda: whether it needs the GPU's device files.
    """

    workdir: str
    readable: tuple[str, ...]
    cuda: bool


class SandboxLevel(Protocol):
    """One way to hold a child."""

    @property
    def name(self) -> str:
        """The word that `--sandbox` takes."""
        ...

    @property
    def not_enforced(self) -> str:
        """What this level does not stop, for the verdict and `pike doctor`."""
        ...

    def obstacle(self) -> str:
        """Why it does not work on this machine, empty if it does (tried once, then remembered)."""
        ...

    def command(self, cell: Cell, argv: list[str]) -> list[str]:
        """`argv` wrapped so that it runs inside `cell`."""
        ...
