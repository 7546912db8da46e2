"""A run as a checkpoint of OpenEvolve, for its loader, its visualiser and its next run.

Knows islands, archive and the files of a checkpoint. Does not know the format of the database,
which OpenEvolve writes. It holds every valid solution of the run, so that lineages are complete.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike.core.step import ORIGINAL
from pike.engine.tools.openevolve.history import History, read
from pike.engine.tools.openevolve.programs import programs, prompt_of
from pike.search.evolution import FITNESS, open_database
from pike.search.options.library import Islands
from pike.search.options.selection import ByRatio

ORIGIN = "pike.json"
"""Names the run of a checkpoint."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run in the form of OpenEvolve.

    Attributes:
        run: the run, read back.
        database: its valid solutions, the original and copies on other islands included.
        queries: how many were asked.
    """

    run: History
    database: Any
    queries: int

    def write(self, path: Path) -> None:
        """Fill an empty folder."""
        self.database.save(str(path), self.queries)
        _write_words(path, self)


def checkpoint_of(folder: Path) -> Checkpoint:
    """The run in `folder` as a checkpoint.

    Raises:
        UserError: there is no run in `folder`, or the extra `openevolve` is missing.
        StoreError: the journal cannot be read.
    """
    run = read(folder)
    return Checkpoint(run, _database(run), run.state.accounts.spend.queries)


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


def _write_words(path: Path, checkpoint: Checkpoint) -> None:
    """The files that OpenEvolve's loop puts beside its database, and the checkpoint's origin."""
    run, queries = checkpoint.run, checkpoint.queries
    best = checkpoint.database.programs[run.best]
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
