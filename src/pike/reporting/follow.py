"""Runs that are read on while another process writes them, and the folder that they are in.

Knows how to read only what is new, without a lock and without keeping a writer waiting. Does not
know who watches (`server`).
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pike.core.errors import PikeError
from pike.core.step import ORIGINAL
from pike.reporting.campaign import summarise_campaign
from pike.reporting.fold import RunningTotals
from pike.reporting.summary import RunSummary, State
from pike.reporting.view.campaign_view import campaign_view
from pike.reporting.view.details import details, original_details, texts_of
from pike.reporting.view.index_view import index_row
from pike.reporting.view.run_view import run_view
from pike.store import holder, read
from pike.store.campaigns import is_campaign
from pike.store.schema import FILE_NAME

DEEPEST = 4
"""How far below the folder runs are looked for."""
PATIENCE_SECONDS = 0.5
"""How long one look at a folder reads journals."""


class FollowedRun:
    """One run, read on from where it was read to before. Any thread may ask.

    Raises:
        UserError: there is no run in the folder, or nothing has been written to its journal yet.
        StoreError: the journal cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._totals = RunningTotals()
        self._rows: dict[str, dict[str, Any]] = {}
        self._mutex = threading.Lock()
        self._known: tuple[int, bool] | None = None
        self._view: dict[str, Any] = {}

    def holder(self) -> int | None:
        """The process of this machine that works on it, None where there is none."""
        return holder(self.folder)

    def summary(self) -> RunSummary:
        """Its figures by now."""
        with self._mutex:
            return self._read_on()

    def view(self) -> tuple[tuple[int, bool], dict[str, Any]]:
        """What its page shows, and a mark that differs whenever that does.

        A row that did not change is the same object as before.
        """
        with self._mutex:
            held = holder(self.folder) is not None
            summary = self._read_on()
            mark = self._totals.last_seq, held
            if mark != self._known:
                view = run_view(summary)
                view["state"] = "running" if held and view["state"] == State.UNFINISHED else view["state"]
                for row in view["rows"]:
                    if self._rows.get(row["id"]) != row:
                        self._rows[row["id"]] = row
                self._view = {**view, "held": held, "rows": [self._rows[row["id"]] for row in view["rows"]]}
                self._known = mark
            return mark, self._view

    def details(self, name: str) -> dict[str, Any] | None:
        """What its page shows of a candidate or step, None where there is none."""
        summary = self.summary()
        if name == ORIGINAL:
            return original_details(summary)
        entrant = summary.entrant(name)
        if entrant is None and not name.startswith("step "):
            return None
        step = entrant.step.id if entrant and entrant.step else int(name.removeprefix("step ")) if not entrant else -1
        return details(entrant, texts_of(self.folder, summary.entries_of.get(step, ())).get(step))

    def _read_on(self) -> RunSummary:
        for entry in read(self.folder, self._totals.last_seq):
            self._totals.take(entry)
        return self._totals.summary(str(self.folder))


class FollowedFolder:
    """All runs and campaigns below a folder. Any thread may ask."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._runs: dict[str, FollowedRun] = {}
        self._rows: dict[str, tuple[object, dict[str, Any] | None]] = {}
        self._mutex = threading.Lock()

    def run(self, name: str) -> FollowedRun | None:
        """The run of that name, which is its path below the folder; None where there is none."""
        if name not in dict(self._found(FILE_NAME)):
            return None
        with self._mutex:
            return self._runs.setdefault(name, FollowedRun(self.root / name))

    def campaign(self, name: str) -> Path | None:
        """The folder of the campaign of that name, None where there is none."""
        return dict(self._found("plan.json")).get(name)

    def campaigns(self) -> list[str]:
        """The names of all campaigns."""
        return [name for name, folder in self._found("plan.json") if is_campaign(folder)]

    def rows(self) -> list[dict[str, Any]]:
        """Every run in short; one that cannot be read is left out.

        Runs that take long to read come with a later call, so that the first answer comes soon.
        """
        found, late = [], time.monotonic() + PATIENCE_SECONDS
        for name, folder in self._found(FILE_NAME):
            held = holder(folder) is not None
            mark = (_signature(folder), held)
            known = self._rows.get(name)
            if (known is None or known[0] != mark) and time.monotonic() < late:
                row = self._row(name, folder, held)
                known = self._rows[name] = (mark, row)
            if known and known[1]:
                found.append(known[1])
        return found

    def campaign_view(self, name: str, link: str) -> dict[str, Any] | None:
        """What the page of a campaign shows, None where there is none.

        Args:
            name: the campaign.
            link: what comes before a run's name in an address.
        """
        folder = self.campaign(name)
        if folder is None:
            return None
        below = "runs/" if name == "." else f"{name}/runs/"
        runs = {
            run.removeprefix(below): link + quote(run) for run, _ in self._found(FILE_NAME) if run.startswith(below)
        }
        return campaign_view(folder.resolve().name, summarise_campaign(folder), runs)

    def _row(self, name: str, folder: Path, held: bool) -> dict[str, Any] | None:
        with self._mutex:
            run = self._runs.get(name) or FollowedRun(folder)
            if held:
                self._runs[name] = run
        with suppress(PikeError):
            row = index_row(name, "", run.summary())
            return {**row, "state": "running" if held else row["state"]}
        return None

    def _found(self, file: str) -> Iterator[tuple[str, Path]]:
        """(name, folder) pairs of the folders that hold a file, in order."""
        for at, folders, files in os.walk(self.root):
            place = Path(at).relative_to(self.root)
            if file in files:
                yield place.as_posix(), Path(at)
            if FILE_NAME in files or len(place.parts) >= DEEPEST:
                folders.clear()
            folders[:] = sorted(one for one in folders if not one.startswith("."))


def _signature(folder: Path) -> tuple[tuple[int, int], ...]:
    """What changes whenever something is written to a journal."""
    found = []
    for path in (folder / FILE_NAME, folder / f"{FILE_NAME}-wal"):
        with suppress(OSError):
            stat = path.stat()
            found.append((stat.st_size, stat.st_mtime_ns))
    return tuple(found)
