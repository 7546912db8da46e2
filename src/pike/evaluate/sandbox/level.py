"""The contract of a sandbox level.

Knows what a level is given (a cell: folders, limits) and what it must say about itself. Does not know any level.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Claim(StrEnum):
    """What a level may promise; the words are those of `not enforced` in the verdict."""

    NETWORK = "network"
    FILES = "reading the user's files"
    READ_ONLY = "writing outside its own folder"
    PROCESSES = "seeing other processes"
    SIGNALS = "signals to other processes"


CHANNEL = "channel"
"""The socket in a child's own folder to which it connects where descriptors are not inherited."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one child may see and use.

    Attributes:
        workdir: its own folder, the place it may write to. `caches/tmp` and `caches/shm` in it exist and stand
            for `/tmp` and `/dev/shm` where the level has its own.
        readable: files and folders it must be able to read (weights, a live module's payload).
        cuda: whether it needs the GPU's device files.
        importable: folders from which it must be able to import; only what `import` can find in them is needed.
        hidden: files that it must not read, wherever they lie.
        filter_fd: descriptor of a compiled system call filter for levels that install it themselves, None for none.
        environment: what the child finds there, for levels that it does not reach by inheritance.
        memory_bytes: what its processes may use together, for levels with limits of their own; 0 for no limit.
        tasks: how many threads it may have, likewise.
        kept_caches: a further folder that it may write to, empty for none.
        live_module: whether the file of the judged module may import all of `pike` but its suites.
    """

    workdir: str
    readable: tuple[str, ...]
    cuda: bool
    importable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    filter_fd: int | None = None
    live_module: bool = False
    kept_caches: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    memory_bytes: int = 0
    tasks: int = 0


class SandboxLevel(Protocol):
    """One way to hold a child."""

    @property
    def name(self) -> str:
        """The word that `evaluate.sandbox` takes."""
        ...

    @property
    def claims(self) -> frozenset[Claim]:
        """What this level promises by itself; limits, filter and clean-up come on top in every level."""
        ...

    @property
    def seen_with_cuda(self) -> bool:
        """Whether it was seen to hold a child that uses a GPU; see `choice.choose`."""
        ...

    @property
    def filters(self) -> bool:
        """Whether the level installs `Cell.filter_fd`; otherwise the child does, before it imports a candidate."""
        ...

    @property
    def inherits(self) -> bool:
        """Whether descriptors, environment and control group reach the child through the level's own program.

        Where not, the child connects to `CHANNEL`, the level sets `Cell.environment`, and groups are its own.
        """
        ...

    def obstacle(self) -> str:
        """Why it does not work on this machine, empty if it does (tried once, then remembered)."""
        ...

    def command(self, cell: Cell, argv: list[str]) -> list[str]:
        """`argv` wrapped so that it runs inside `cell`."""
        ...

    def end(self, cell: Cell) -> None:
        """Remove what the level made for `cell` besides processes, which are dead by then."""
        ...
