"""The runs that a server offers, by name, and how a new one begins.

Knows that a run is a folder and that an agent names it by the folder's name, never by a path. Does not know the
protocol (`tools`) or how a run works (`api`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from pike.api.byhand import Desk
from pike.api.options import Options
from pike.api.verbs import new_folder
from pike.api.views import RunSummary, in_suite, is_run, runs_in, suites, summarise
from pike.core.config import nearest
from pike.core.errors import UserError
from pike.core.task import Task


class Runs:
    """What is on offer.

    Args:
        desk: where moves are made.
        root: the folder whose subfolders are the runs; where `only` is given it is not looked at.
        tasks: the tasks of which runs may be begun, beside those of the installed suites. Others may not: a task's own
            code runs in this process.
        options: the terms of every run that is begun here; they are the server's owner's, not the agent's.
        only: the one run that is offered, None for all under `root`.

    Raises:
        UserError: there is no run in `only`.
    """

    def __init__(
        self, desk: Desk, root: Path, tasks: tuple[Task, ...], options: Options, only: Path | None = None
    ) -> None:
        self.desk = desk
        self.options = options
        self._tasks = tasks
        self._root = root
        self._only = only

        if only is not None and not is_run(only):
            raise UserError(
                f"There is no run in '{only}': start one with pike optimize TASK --strategy agent --out {only}"
            )

    @property
    def can_begin(self) -> bool:
        """Whether runs may be started here."""
        return self._only is None

    def names(self) -> tuple[str, ...]:
        """Every run by name."""
        return (self._only.name,) if self._only else tuple(folder.name for folder in runs_in(self._root))

    def folder(self, name: str) -> Path:
        """The folder of a run; an empty name means the only one.

        Raises:
            UserError: there is no run of that name, or several and no name.
        """
        names = self.names()
        chosen = names[0] if not name and len(names) == 1 else name
        if chosen not in names:
            known = f"name one of: {', '.join(names)}" if names else "there is none yet"
            more = ", or begin one with start_run" if self.can_begin else ""
            raise UserError(
                f"There is no run {name!r}: {known}{more}" if name else f"Which run is meant? {known}{more}"
            )
        return self._only or self._root / chosen

    async def summary(self, name: str) -> tuple[Path, RunSummary]:
        """A run's folder and figures.

        Raises:
            UserError: as `folder`.
            StoreError: its journal cannot be read.
        """
        folder = self.folder(name)
        return folder, await asyncio.to_thread(summarise, folder)

    def tasks(self) -> tuple[Task, ...]:
        """Every task of which a run may be begun."""
        if self._only is not None:
            return ()
        return (*self._tasks, *(task for suite in suites() for task in in_suite(suite)))

    def task(self, name: str) -> Task:
        """The task of that name.

        Raises:
            UserError: there is none on offer.
        """
        for task in self.tasks():
            if task.id == name:
                return task
        raise UserError(f"There is no task {name!r} on offer{nearest(name, [task.id for task in self.tasks()])}")

    async def begin(self, name: str) -> str:
        """Begin a run of a task on the server's terms and give its name.

        Raises:
            UserError: the server offers one run only, or the task cannot be used.
            BoundaryError: as for `pike.optimize`.
        """
        if self._only is not None:
            raise UserError(f"This server offers the run {self._only.name!r} and begins no other")
        task = self.task(name)
        folder = new_folder(task.id, self._root)
        await self.desk.begin(task, folder, **self.options)
        return folder.name
