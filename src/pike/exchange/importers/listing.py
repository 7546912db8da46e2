"""The list of importers, and how a path finds its importer.

Lists every importer once, in order: the first one that knows a layout reads it. Does not know any
layout.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from pike.core.errors import UserError
from pike.exchange.importers import openevolve, pike_data, shinka
from pike.exchange.importers.foreign import ForeignRun
from pike.exchange.importers.writing import write

Importer = Callable[[Path], Iterator[ForeignRun] | None]
"""Turns a path into runs, None for another layout; raises `UserError` for what cannot be used."""

IMPORTERS: tuple[Importer, ...] = (pike_data.read, openevolve.read, shinka.read)


def import_from(source: Path, out: Path) -> tuple[Path, ...]:
    """Write every run in `source` as a journal in `out`; returns the runs' folders.

    Raises:
        UserError: `source` has no layout that is known, nothing in it can be used, or a run's
            folder exists.
        StoreError: the disk refused.
    """
    if not source.exists():
        raise UserError(f"There is nothing at {source}: give a path to import from")
    runs = next((found for read in IMPORTERS if (found := read(source)) is not None), None)
    if runs is None:
        raise UserError(
            f"{source} has no layout that can be imported: give a PIKE data folder, a checkpoint of OpenEvolve, "
            "or a database of ShinkaEvolve"
        )
    written = tuple(write(run, out) for run in runs)
    if not written:
        raise UserError(f"{source} holds no candidate: give a run that has one")
    return written
