"""What a journal says, as far as a checkpoint of OpenEvolve shows it.

Knows verdicts, questions and where a search keeps its solutions. Does not know OpenEvolve's records (`programs`)
or files (`checkpoint`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from pike import search, store
from pike.core.events import Asked, Entry, Judged, QuerySent
from pike.core.query import Query
from pike.core.step import ORIGINAL, Solution
from pike.engine import outputs, resume
from pike.engine.memory import Memory
from pike.search.evolution import EvolutionOptions, Population
from pike.search.evolution import population as population_of

ELITES = EvolutionOptions().archive


@dataclass(frozen=True, slots=True)
class History:
    """A run, read back.

    Attributes:
        memory: the state.
        population: where solutions are.
        judged_at: when each verdict was written, Unix seconds.
        queries: how many queries had been asked with each step.
        asked: the last question of each step.
    """

    memory: Memory
    population: Population
    judged_at: dict[str, float]
    queries: dict[int, int]
    asked: dict[int, Query]

    @property
    def best(self) -> str:
        """The winner if the run is complete, else the best of the search."""
        memory = self.memory
        return (memory.finished.best if memory.finished else memory.best_id) or ORIGINAL

    @property
    def valid(self) -> list[Solution]:
        """Solutions that can be seeds, in order of their verdicts."""
        found = (self.memory.solutions[candidate.id] for candidate in self.memory.known)
        return [solution for solution in found if solution.evaluation.timing]


def read(folder: Path) -> History:
    """The history of the run in `folder`.

    Raises:
        UserError: there is no run in `folder`, or this version decides otherwise than the one that began it.
        StoreError: the journal cannot be read.
    """
    entries = tuple(store.read(folder))
    config = outputs.beginning(entries, folder).config
    strategy = search.make(config.strategy, config.budget, config.engine.run_seed)
    if population_of(strategy) is None:
        memory = outputs.remember(entries, folder)
    else:
        memory = Memory()
        resume.rebuild(memory, strategy, entries, folder)
    steps = [entry.event.step for entry in entries if isinstance(entry.event, Asked)]
    queries = accumulate(step.queries for step in steps)
    population = population_of(strategy) or _one_island(memory)
    return History(
        memory=memory,
        population=population,
        judged_at=_judged_at(entries),
        queries=dict(zip((step.id for step in steps), queries, strict=True)),
        asked={entry.event.query.step_id: entry.event.query for entry in entries if isinstance(entry.event, QuerySent)},
    )


def _judged_at(entries: Sequence[Entry]) -> dict[str, float]:
    """When the first verdict on each candidate was written."""
    verdicts = [(entry.event.candidate_id, entry.at_seconds) for entry in entries if isinstance(entry.event, Judged)]
    return dict(reversed(verdicts))


def _one_island(memory: Memory) -> Population:
    """Where solutions are in a search without islands: all on one, the fastest in the archive."""
    timed = [(solution.evaluation.candidate_ms, name) for name, solution in memory.solutions.items()]
    valid = [(ms, name) for ms, name in timed if ms is not None]
    archive = tuple(name for _, name in sorted(valid, key=lambda pair: pair[0])[:ELITES])
    homes = {ORIGINAL: 0, **{name: 0 for _, name in valid}}
    return Population((tuple(homes),), archive, ({},), (len(valid),), 0, {}, homes)
