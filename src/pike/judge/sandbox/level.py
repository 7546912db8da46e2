"""What a sandbox level is given and what it must say about itself.

Limits, the system call filter and clean-up come on top, in every level.
"""

import sys
from dataclasses import dataclass
from enum import StrEnum

from pike.judge.sandbox import first_process

FIRST_PROCESS = (sys.executable, "-I", "-S", str(first_process.__file__))
"""What a level with a PID namespace puts before a command."""


class Claim(StrEnum):
    """What a level may promise; the words are those of `not enforced` in the verdict."""

    NETWORK = "network"
    FILES = "reading the user's files"
    READ_ONLY = "writing outside its own folder"
    PROCESSES = "seeing other processes"
    SIGNALS = "signals to other processes"


CHANNEL = "channel"
"""The socket in a child's folder to which it connects where descriptors are not inherited."""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What one child may see and use.

    Attributes:
        workdir: its own folder, which it may write to. `caches/tmp` and `caches/shm` in it exist
            and stand for `/tmp` and `/dev/shm` where the level has its own.
        readable: files and folders that it must be able to read.
        cuda: whether it needs the GPU's device files.
        importable: folders from which it must be able to import.
        hidden: files that it must not read, wherever they lie.
        filter_fd: descriptor of a compiled system call filter, for a level that installs it.
        live_module: whether the file of the judged module may import all of `pike` but its suites.
        kept_caches: a further folder that it may write to, empty for none.
        environment: its environment, for a level that does not pass it on by inheritance.
        memory_bytes: what its processes may use together, 0 for no limit.
        tasks: how many threads it may have, 0 for no limit.
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


class SandboxLevel:
    """One way to hold a child; by default nothing is wrapped, and nothing is promised.

    Attributes:
        name: the word that `evaluate.sandbox` takes.
        claims: what the level promises by itself.
        works_with_cuda: whether it was seen to hold a child that uses a GPU.
        filters: whether it installs `SandboxSpec.filter_fd`; otherwise the child does.
        inherits: whether descriptors, environment and control group reach the child through the
            level's own program. If not, the child connects to `CHANNEL`.
        forks: whether a child may be forked from a process outside, because nothing wraps it.
    """

    name: str
    claims: frozenset[Claim] = frozenset()
    works_with_cuda = True
    filters = False
    inherits = True
    forks = False

    def obstacle(self) -> str:
        """Why it does not work on this machine, empty if it does."""
        return ""

    def command(self, spec: SandboxSpec, argv: list[str]) -> list[str]:
        """`argv` wrapped so that it runs inside the sandbox."""
        return argv

    def end(self, spec: SandboxSpec) -> None:
        """Remove what the level made besides processes, which are dead by then."""


class BareProcess(SandboxLevel):
    """The weakest level, which works on every machine.

    The filter alone keeps the network out of reach: it allows only local sockets.
    """

    name = "process"
    forks = True
