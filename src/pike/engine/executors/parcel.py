"""A task with the bytes of all files that it rests on, for a judge on another machine.

Knows how paths of one machine become paths of another; a parcel itself names none. Does not know
how a parcel travels, nor what the files hold.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import ClassVar

from pike.core.errors import UserError, saying
from pike.core.task import Task, TaskFile, TaskKind

IN_PARCEL = Task("", "", TaskKind.SOURCE, "", "")
"""Stands for the task of a request, which travels as a parcel."""
_MODULE = "module"


@dataclass(frozen=True, slots=True)
class Parcel:
    """A task and its files.

    Attributes:
        task: its paths are relative to the folder that the parcel is unpacked into.
        contents: the bytes of its files, in the order of `task.files`; None for one that is not
            there.
        payload: the bytes of a saved module.
        digest: SHA-256 of all that (hexadecimal).
    """

    kind: ClassVar[str] = "parcel"

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
    portable = _portable(task)
    return Parcel(portable, contents, payload, _digest(portable, contents, payload))


def unpack(parcel: Parcel, root: Path) -> Task:
    """Write the files below a folder of their own in `root`, and return the task as it is here.

    A parcel that was unpacked before is not written again.

    Raises:
        UserError: the parcel was changed on its way.
    """
    if _digest(parcel.task, parcel.contents, parcel.payload) != parcel.digest:
        raise UserError(f"The parcel of task '{parcel.task.id}' was changed on its way: pack it again")
    folder = root / parcel.digest
    task, places = parcel.task, [file.path for file in parcel.task.files]
    if any(PurePath(place).is_absolute() or ".." in PurePath(place).parts for place in (*places, *task.import_paths)):
        raise UserError(f"The parcel of task '{task.id}' would write outside its folder: pack it again")
    if not folder.exists():
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=root))
        for place, content in zip(places, parcel.contents, strict=True):
            _write(made / place, content)
        for place in task.import_paths:
            (made / place).mkdir(parents=True, exist_ok=True)
        _write(made / _MODULE, parcel.payload)
        try:
            made.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(made, ignore_errors=True)
    return replace(
        task,
        files=tuple(replace(file, path=str(folder / file.path)) for file in task.files),
        payload_path=str(folder / _MODULE) if parcel.payload is not None else None,
        import_paths=tuple(str(folder / place) for place in task.import_paths),
    )


def _portable(task: Task) -> Task:
    """The task with paths relative to the folder that it is unpacked into."""
    places = [_place(file, task.import_paths, number) for number, file in enumerate(task.files)]
    return replace(
        task,
        origin=PurePath(task.origin).name,
        files=tuple(TaskFile(str(place), file.digest) for place, file in zip(places, task.files, strict=True)),
        payload_path=_MODULE if task.payload_path else None,
        import_paths=tuple(_imports(number) for number in range(len(task.import_paths))),
    )


def _contents(task: Task, file: TaskFile) -> bytes | None:
    if not file.digest:
        return None
    source = task.source.encode()
    if not Path(file.path).exists() and hashlib.sha256(source).hexdigest() == file.digest:
        return source  # the journal came from another machine, and holds the file itself
    with saying(UserError, f"The file {file.path} of task '{task.id}' cannot be read"):
        content = Path(file.path).read_bytes()
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
