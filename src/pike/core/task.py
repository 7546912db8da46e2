"""A task: the model that is to be made faster, as a record that can be sent to another process.

Knows the two forms of a task, a KernelBench-format source file and a pickled live module, and its
declared least work. Does not know how tasks are found (`tasks`) or run (`judge`).
"""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum

_FAMILY = re.compile(r'^FAMILY = "([^"]+)"$', re.MULTILINE)


class TaskKind(StrEnum):
    """How the judge obtains the reference model."""

    SOURCE = "source"
    """`Task.source` is a KernelBench-format file: `Model`, `get_inputs`, `get_init_inputs`."""
    MODULE = "module"
    """`Task.payload_path` is a file with a live module: a cloudpickle of a dict.

    Its keys are `module` (the `nn.Module`), `args` (tuple), `kwargs` (dict) and `make_inputs`. The
    last is None, or a callable that draws a new (args, kwargs) pair from torch's global generator.
    """


@dataclass(frozen=True, slots=True)
class LeastWork:
    """The least work of any correct candidate in one call, by any algorithm; 0 for unknown.

    Attributes:
        bytes: bytes read and written, each once.
        operations: arithmetic operations; an addition and a multiplication are two.
    """

    bytes: int = 0
    operations: int = 0


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A file that a task rests on, with the SHA-256 of its bytes when the task was made.

    The digest is empty for a file that was not there and would be imported.
    """

    path: str
    digest: str


@dataclass(frozen=True, slots=True)
class Task:
    """One optimisation problem.

    Attributes:
        id: short, unique and stable, for example `demo/resnet18`.
        name: the name for people.
        kind: how the reference is obtained.
        source: Python text. The judge executes it for `SOURCE`; for `MODULE` only agents read it.
        origin: where it came from (a path or `package.module:callable`), for humans.
        payload_path: for `MODULE`, the absolute path of the pickled module and example inputs.
        import_paths: directories put on `sys.path` before the payload is loaded (classes live
            there).
        files: what it rests on besides `source`; the judge refuses the task once one has changed.
    """

    id: str
    name: str
    kind: TaskKind
    source: str
    origin: str
    payload_path: str | None = None
    import_paths: tuple[str, ...] = ()
    files: tuple[TaskFile, ...] = ()

    @property
    def family(self) -> str:
        """The kind of model that its file declares as `FAMILY`, empty where it declares none."""
        found = _FAMILY.search(self.source) if self.kind is TaskKind.SOURCE else None
        return found[1] if found else ""


def is_held_out(id: str) -> bool:
    """Whether the task of that id is in the half of a zoo on which no recipe is developed.

    The last bit of the SHA-256 of its name decides, so that a new task moves no other. A small
    variant goes with its task.
    """
    stem = id.rpartition("/")[2].removesuffix(":small")
    return bool(hashlib.sha256(stem.encode()).digest()[-1] & 1)
