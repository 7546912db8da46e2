"""A suite: a named list of tasks that are read only when they are used.

Knows how a task in a suite is found by its id or number, and that a suite's small variants are a
suite too. Does not know where suites come from (`loaders`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pike.core.errors import UserError
from pike.core.settings.merging import nearest
from pike.core.task import Task
from pike.tasks import variants
from pike.tasks.sources import from_file, looks_like_a_task


@dataclass(frozen=True, slots=True)
class SuiteEntry:
    """One task of a suite, not read yet.

    Attributes:
        id: inside the suite, for example `9_ResNet18`, or `level3/9_ResNet18` in a suite of several
            levels.
        name: the id of the task itself, for example `level3-pike/9_ResNet18`.
        address: what `resolve` takes for it in any folder: a full path, or the name.
        where: the file or data set, for people.
        read: makes the task; raises `UserError` if it cannot be used.
    """

    id: str
    name: str
    address: str
    where: str
    read: Callable[[], Task]

    @property
    def number(self) -> str:
        """The id with only the task's number, for example `9`; the whole id if it has none."""
        level, slash, stem = self.id.rpartition("/")
        number = stem.partition("_")[0]
        return f"{level}{slash}{number}" if number.isdigit() else self.id

    def small(self) -> SuiteEntry:
        """The small variant."""
        id, name, address = (text + variants.SUFFIX for text in (self.id, self.name, self.address))
        return SuiteEntry(id, name, address, self.where, lambda: variants.small(self.read()))


@dataclass(frozen=True, slots=True)
class Suite:
    """Tasks under one name."""

    name: str
    entries: tuple[SuiteEntry, ...]

    def find(self, id: str) -> SuiteEntry:
        """The task of that id or number, its small variant for `ID:small`.

        Raises:
            UserError: there is none; the message offers the nearest id.
        """
        stem, wants_small = variants.split(id)
        by_number = {entry.number: entry for entry in reversed(self.entries)}
        by_id = {entry.id: entry for entry in self.entries}
        found = by_id.get(stem) or by_number.get(stem)
        if found is None:
            raise UserError(f"Suite '{self.name}' has no task '{stem}'{nearest(stem, by_id)}")
        return found.small() if wants_small else found

    def small(self) -> Suite:
        """The small variants of all its tasks."""
        small = tuple(entry.small() for entry in self.entries)
        return replace(self, name=self.name + variants.SUFFIX, entries=small)

    def tasks(self) -> tuple[Task, ...]:
        """All tasks."""
        return tuple(entry.read() for entry in self.entries)


def by_number(stem: str) -> tuple[int, str]:
    """A key that sorts names by the number before them; those without one come first."""
    number = stem.partition("_")[0]
    return (int(number) if number.isdigit() else 0, stem)


def entries_in(folder: Path, label: str, prefix: str = "", alone: bool = False) -> tuple[SuiteEntry, ...]:
    """The tasks among the files of a folder, sorted by number.

    Args:
        folder: the folder.
        label: the suite's name in the names of tasks.
        prefix: goes before the ids of tasks.
        alone: whether the files import nothing from each other.
    """
    files = sorted(folder.glob("*.py"), key=lambda path: by_number(path.stem))
    return tuple(_entry(path, label, prefix, alone) for path in files if looks_like_a_task(path))


def _entry(path: Path, label: str, prefix: str, alone: bool) -> SuiteEntry:
    id = f"{prefix}{path.stem}"
    name, address = f"{label}/{id}", str(path.resolve())
    return SuiteEntry(id, name, address, address, partial(from_file, path, id=name, alone=alone))
