"""The runs that a server offers, by name, and how a new one begins.

Knows that a run is a folder, which an agent names by its name and never by a path. An agent sees
the runs that began here, because the solutions of others are answers to copy. Does not know the
protocol (`tools`) or how a run works (`api`).
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from pike.api.external import ExternalRuns
from pike.api.options import Options
from pike.api.targets import new_folder
from pike.api.views import RunSummary, find_task, in_suite, is_run, suites, summarise
from pike.core.errors import UserError
from pike.core.settings.merging import nearest
from pike.core.task import Task


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server offers.

    Attributes:
        root: the folder in which its runs begin.
        tasks: the tasks that runs may begin with, beside those of the installed suites.
        options: the terms of runs that begin here.
        only: the one run that is offered, None for those that begin here.
    """

    root: Path
    tasks: tuple[str, ...]
    options: Options
    only: Path | None = None


class Runs:
    """The runs and tasks that a server offers.

    Args:
        external: makes their moves.
        offer: which they are. An agent cannot name other tasks, because a task's own code runs in
            this process, and its terms are set by the owner of the server.

    Raises:
        UserError: there is no run in `offer.only`, or a task is not found.
    """

    def __init__(self, external: ExternalRuns, offer: Offer) -> None:
        self.external, self._offer, self._only = external, offer, offer.only
        self._tasks = tuple(find_task(name) for name in offer.tasks)
        self._begun: list[str] = []

        if self._only is not None and not is_run(self._only):
            raise UserError(
                f"There is no run in '{self._only}': start one with pike optimize TASK --strategy agent "
                f"--out {self._only}"
            )

    @property
    def can_begin(self) -> bool:
        """Whether runs may be started here."""
        return self._only is None

    def names(self) -> tuple[str, ...]:
        """Every run on offer, by name."""
        return (self._only.name,) if self._only else tuple(self._begun)

    def folder(self, name: str) -> Path:
        """Find the folder of a run; an empty name means the only one.

        Raises:
            UserError: there is no run of that name, or several and no name.
        """
        names = self.names()
        chosen = names[0] if not name and len(names) == 1 else name
        if chosen not in names:
            known = f"name one of: {', '.join(names)}" if names else "there is none yet"
            more = ", or begin one with start_run; pike mcp --run offers an earlier one" if self.can_begin else ""
            raise UserError(
                f"There is no run {name!r}: {known}{more}" if name else f"Which run is meant? {known}{more}"
            )
        return self._only or self._offer.root / chosen

    async def summary(self, name: str) -> tuple[Path, RunSummary]:
        """Find a run's folder and compute its figures."""
        folder = self.folder(name)
        return folder, await asyncio.to_thread(summarise, folder)

    def tasks(self) -> tuple[Task, ...]:
        """Every task that a run may begin with."""
        if self._only is not None:
            return ()
        return (*self._tasks, *(task for suite in suites() for task in in_suite(suite)))

    def task(self, name: str) -> Task:
        """Find the task of that name.

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
        folder = new_folder(task.id, self._offer.root)
        await self.external.begin(task, folder, self._offer.options)
        self._begun.append(folder.name)
        return folder.name
