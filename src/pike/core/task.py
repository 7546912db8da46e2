"""What is to be made faster, as a record that can be sent to another process.

Knows the two shapes a task can have (a KernelBench-format source file, or a pickled live module) and what a task may
declare about its least work. Does not know how tasks are found or loaded (`tasks`) nor how they are run (`evaluate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TaskKind(StrEnum):
    """How the judge obtains the reference model."""

    SOURCE = "source"
    """`Task.source` is a KernelBench-format file: `Model`, `get_inputs`, `get_init_inputs`."""
    MODULE = "module"
    """`Task.payload_path` is a file with a live module: a cloudpickle of a dict with the keys `module` (the
    `nn.Module`), `args` (tuple), `kwargs` (dict) and `make_inputs` (None, or a callable without arguments
    that draws a new (args, kwargs) pair from torch's global generator)."""


@dataclass(frozen=True, slots=True)
class LeastWork:
    """What any right candidate does at least in one call, by whatever algorithm; 0 says nothing.

    Attributes:
        bytes: read and written, each byte once.
        operations: of arithmetic; an addition and a multiplication are two.
    """

    bytes: int = 0
    operations: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """One optimisation problem.

    Attributes:
        id: short, unique and stable, for example `demo/resnet18`.
        name: what people read.
        kind: how the reference is obtained.
        source: Python text. For `SOURCE` it is executed by the judge; for `MODULE` it only shows agents what
            the module does.
        origin: where it came from (a path or `package.module:callable`), for humans.
        payload_path: for `MODULE`, the absolute path of the pickled module and example inputs.
        import_paths: directories put on `sys.path` before the payload is loaded (classes live there).
    """

    id: str
    name: str
    kind: TaskKind
    source: str
    origin: str
    payload_path: str | None = None
    import_paths: tuple[str, ...] = ()
