"""A suite: a named list of tasks that are read only when they are wanted.

Knows how a task in a suite is found by its id or number, and that a suite's small variants are a suite too. Does not
know where the tasks lie: a loader does (`pike.tasks.loaders`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pike.core.config import nearest
from pike.core.errors import UserError
from pike.core.task import Task
from pike.tasks import variants


@dataclass(frozen=True, slots=True)
class Entry:
    """One task of a suite, not read yet.

    Attributes:
        id: inside the suite, for example `9_ResNet18`, or `level3/9_ResNet18` in a suite of several levels.
        name: the id of the task itself, for example `level3-pike/9_ResNet18`.
        address: what `resolve` takes for it wherever the user is: a full path, or the name.
        where: the file or data set, for people.
        read: makes the task; raises a `UserError` where it cannot be used.
    """

    id: str
    name: str
    address: str
    where: str
    read: Callable[[], Task]

    @property
    def number(self) -> str:
        """The id with the number that the task's name begins with in place of that name; the id where it has none."""
        level, slash, stem = self.id.rpartition("/")
        number = stem.partition("_")[0]
        return f"{level}{slash}{number}" if number.isdigit() else self.id

    def small(self) -> Entry:
        """The small variant."""
        read = self.read
        return Entry(
            self.id + variants.SUFFIX,
            self.name + variants.SUFFIX,
            self.address + variants.SUFFIX,
            self.where,
            lambda: variants.small(read()),
        )


@dataclass(frozen=True, slots=True)
class Suite:
    """Tasks under one name.

    Attributes:
        name: what the user types for it.
        entries: its tasks in the order in which they are listed.
    """

    name: str
    entries: tuple[Entry, ...]

    def find(self, id: str) -> Entry:
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
        """Every task, read.

        Raises:
            UserError: one of them cannot be used.
        """
        return tuple(entry.read() for entry in self.entries)


def by_number(stem: str) -> tuple[int, str]:
    """Sorts names by the number that they begin with; those without one come first."""
    number = stem.partition("_")[0]
    return (int(number) if number.isdigit() else 0, stem)
