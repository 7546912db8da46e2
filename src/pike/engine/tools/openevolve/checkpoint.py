"""A run as a checkpoint of OpenEvolve, for its loader, its visualiser and its next run.

Knows islands, archive and the files of a checkpoint. Does not know the format of the database,
which OpenEvolve writes. It holds every valid solution of the run, so that lineages are complete.
"""

import json
import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike.core.errors import UserError
from pike.core.step import ORIGINAL
from pike.engine.tools.openevolve.history import History, read
from pike.engine.tools.openevolve.programs import programs, prompt_of
from pike.search.evolution import FITNESS, open_database
from pike.search.options.library import Islands
from pike.search.options.selection import ByRatio

FOLDER = "openevolve"
"""The default folder of checkpoints, inside the run's folder."""
ORIGIN = "pike.json"
"""Names the run of a checkpoint; only a folder that holds this file is ever replaced."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An exported run.

    Attributes:
        path: the checkpoint's folder.
        programs: how many it holds, the original and copies on other islands included.
        islands: how many of them are on each island.
        best: id of the best, `ORIGINAL` without a valid candidate.
    """

    path: Path
    programs: int
    islands: tuple[int, ...]
    best: str


def export(folder: Path, out: Path | None = None) -> Checkpoint:
    """Write `OUT/checkpoints/checkpoint_N` of a run; N is the number of queries asked.

    Args:
        folder: the run's folder.
        out: by default `openevolve` inside it.

    Raises:
        UserError: there is no run in `folder`, the extra `openevolve` is missing, or something
            else is in the way.
        StoreError: the journal cannot be read.
    """
    run = read(folder)
    queries = run.state.accounts.spend.queries
    path = (out or folder / FOLDER) / "checkpoints" / f"checkpoint_{queries}"
    if path.exists() and not (path / ORIGIN).is_file():
        raise UserError(f"The folder {path} holds something else: choose another one with --out")
    database = _database(run)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.mkdir(parents=True)
        database.save(str(beside), queries)
        _write_words(beside, run, database)
        shutil.rmtree(path, ignore_errors=True)
        beside.rename(path)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise UserError(f"The checkpoint {path} cannot be written ({error.strerror}): choose another --out") from error
    islands = tuple(len(island) for island in database.islands)
    return Checkpoint(path, len(database.programs), islands, run.best)


def _database(run: History) -> Any:
    held = run.population
    options = Islands(islands=len(held.islands))
    database, module = open_database(options, ByRatio(), random.Random(0), None)
    database.programs = {program.id: program for program in programs(run, module)}
    database.islands = _islands(run)
    for number, island in enumerate(database.islands):
        for name in island:
            database.programs[name].metadata["island"] = number
    database.archive = held.archive
    database.island_feature_maps = list(held.cells)
    database.island_generations = list(held.generations)
    database.last_migration_generation = held.migrated_at
    database.best_program_id = run.best
    database.island_best_programs = [_best_of(database, island) for island in database.islands]
    database.config.log_prompts = True
    database.prompts_by_program = {name: prompt for name in database.programs if (prompt := prompt_of(run, name))}
    return database


def _islands(run: History) -> list[list[str]]:
    """The solutions on each island, followed by those that have left it."""
    held = run.population
    islands = [list(island) for island in held.islands]
    present = {name for island in islands for name in island}
    for solution in run.valid:
        name = solution.candidate.id
        if name not in present:
            islands[held.homes.get(name, 0)].append(name)
    if ORIGINAL not in present:
        islands[0].append(ORIGINAL)
    return islands


def _best_of(database: Any, island: Sequence[str]) -> str | None:
    def fitness(name: str) -> float:
        return float(database.programs[name].metrics.get(FITNESS, 0.0))

    return max(island, key=fitness, default=None)


def _write_words(path: Path, run: History, database: Any) -> None:
    """The files that OpenEvolve's loop puts beside its database, and the checkpoint's origin."""
    best = database.programs[run.best]
    queries = run.state.accounts.spend.queries
    (path / "best_program.py").write_text(best.code)
    info = {
        "id": best.id,
        "generation": best.generation,
        "iteration": best.iteration_found,
        "current_iteration": queries,
        "metrics": best.metrics,
        "language": best.language,
        "timestamp": best.timestamp,
        "saved_at": max(run.judged_at.values(), default=0.0),
    }
    (path / "best_program_info.json").write_text(json.dumps(info, indent=2) + "\n")
    origin = {
        "task": run.state.task.id,
        "strategy": run.state.config.strategy.preset,
        "pike_version": run.state.version,
        "queries": queries,
    }
    (path / ORIGIN).write_text(json.dumps(origin, indent=2) + "\n")
