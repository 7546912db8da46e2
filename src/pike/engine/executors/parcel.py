"""A task with the bytes of all files that it rests on, for a judge on another machine.

Knows how paths of one machine become paths of another. Does not know how a parcel travels, nor what
the files hold.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from pike.core.errors import UserError
from pike.core.task import Task, TaskFile

_MODULE = "module"


@dataclass(frozen=True, slots=True)
class Parcel:
    """A task and its files.

    Attributes:
        task: as it is on the machine that it comes from.
        contents: the bytes of its files, in the order of `task.files`; None for one that is not
            there.
        payload: the bytes of a saved module.
        digest: SHA-256 of all that (hexadecimal).
    """

    task: Task
    contents: tuple[bytes | None, ...]
    payload: bytes | None
    digest: str


def pack(task: Task) -> Parcel:
    """Read all files of a task.

    Raises:
        UserError: one is gone or has changed since the task was made.
    """
    contents = tuple(_contents(task, file) for file in task.files)
    payload = Path(task.payload_path).read_bytes() if task.payload_path else None
    return Parcel(task, contents, payload, _digest(task, contents, payload))


def unpack(parcel: Parcel, root: Path) -> Task:
    """Write the files below a folder of their own in `root`, and return the task as it is here.

    A parcel that was unpacked before is not written again.

    Raises:
        UserError: the parcel was changed on its way.
    """
    if _digest(parcel.task, parcel.contents, parcel.payload) != parcel.digest:
        raise UserError(f"The parcel of task '{parcel.task.id}' was changed on its way: pack it again")
    folder = root / parcel.digest
    places = [_place(file, parcel.task.import_paths, number) for number, file in enumerate(parcel.task.files)]
    if not folder.exists():
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=root))
        for place, content in zip(places, parcel.contents, strict=True):
            _write(made / place, content)
        for number in range(len(parcel.task.import_paths)):
            (made / _imports(number)).mkdir(parents=True, exist_ok=True)
        _write(made / _MODULE, parcel.payload)
        try:
            made.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(made, ignore_errors=True)
    files = [TaskFile(str(folder / place), file.digest) for place, file in zip(places, parcel.task.files, strict=True)]
    return replace(
        parcel.task,
        files=tuple(files),
        payload_path=str(folder / _MODULE) if parcel.payload is not None else None,
        import_paths=tuple(str(folder / _imports(number)) for number in range(len(parcel.task.import_paths))),
    )


def _contents(task: Task, file: TaskFile) -> bytes | None:
    if not file.digest:
        return None
    try:
        content = Path(file.path).read_bytes()
    except OSError as error:
        raise UserError(f"The file {file.path} of task '{task.id}' cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != file.digest:
        raise UserError(f"The file {file.path} has changed since the task '{task.id}' was made: begin a new run")
    return content


def _place(file: TaskFile, roots: Sequence[str], number: int) -> PurePath:
    """Where a file lies in the folder: below its import path, so that imports find it again."""
    for index, root in sorted(enumerate(roots), key=lambda one: -len(one[1])):
        if PurePath(file.path).is_relative_to(root):
            inside = PurePath(os.path.normpath(PurePath(file.path).relative_to(root)))
            if ".." not in inside.parts:
                return PurePath(_imports(index)) / inside
    return PurePath("files") / str(number) / PurePath(file.path).name


def _imports(number: int) -> str:
    return f"imports-{number}"


def _write(path: Path, content: bytes | None) -> None:
    if content is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _digest(task: Task, contents: Sequence[bytes | None], payload: bytes | None) -> str:
    whole = hashlib.sha256(repr(task).encode())
    for content in (*contents, payload):
        whole.update(b"-" if content is None else hashlib.sha256(content).digest())
    return whole.hexdigest()
