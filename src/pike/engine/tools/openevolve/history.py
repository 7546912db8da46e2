"""The content of a journal that a checkpoint of OpenEvolve shows.

Knows verdicts, prompts and the population of a search. Does not know OpenEvolve's records
(`programs`) or files (`checkpoint`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path

from pike import search, store
from pike.core.errors import UserError
from pike.core.events import Asked, JournalEntry, Judged, QuerySent
from pike.core.query import Query
from pike.core.step import ORIGINAL, Solution
from pike.engine.state import resume
from pike.engine.state.run_state import RunState
from pike.search.evolution import Population
from pike.search.evolution import population as population_of
from pike.search.options.library import Islands
from pike.search.options.search import SearchOptions

ELITES = Islands().archive


@dataclass(frozen=True, slots=True)
class History:
    """A run, read back.

    Attributes:
        judged_at: when each verdict was written, Unix seconds.
        queries: how many queries had been asked with each step.
        asked: the last question of each step.
    """

    state: RunState
    population: Population
    judged_at: dict[str, float]
    queries: dict[int, int]
    asked: dict[int, Query]

    @property
    def best(self) -> str:
        """The winner if the run is complete, else the best of the search."""
        state = self.state
        return (state.finished.best if state.finished else state.best_id) or ORIGINAL

    @property
    def valid(self) -> list[Solution]:
        """Solutions that can be seeds, in order of their verdicts."""
        found = (self.state.solutions[candidate.id] for candidate in self.state.known)
        return [solution for solution in found if solution.evaluation.timing]


def read(folder: Path) -> History:
    """The history of the run in `folder`.

    Raises:
        UserError: there is no run in `folder`, or this version decides otherwise than the one that
            began it.
        StoreError: the journal cannot be read.
    """
    entries = tuple(store.read(folder))
    begun = resume.beginning(entries, folder)
    config = begun.config
    strategy = search.make(config.strategy, config.budget, config.engine.run_seed) if begun.imported is None else None
    if strategy is None or population_of(strategy) is None:
        state = resume.state_of(entries, folder)
    else:
        state = RunState()
        resume.rebuild(state, strategy, entries, folder)
    steps = [entry.event.step for entry in entries if isinstance(entry.event, Asked)]
    queries = accumulate(step.queries for step in steps)
    population = (strategy and population_of(strategy)) or _one_island(state)
    return History(
        state=state,
        population=population,
        judged_at=_judged_at(entries),
        queries=dict(zip((step.id for step in steps), queries, strict=True)),
        asked={entry.event.query.step_id: entry.event.query for entry in entries if isinstance(entry.event, QuerySent)},
    )


def islands_of(folder: Path) -> dict[str, int]:
    """The island of each candidate; empty for a search with one island or none.

    An imported run says them itself. Of others only a search that is repeated tells its islands.
    So empty too where this version decides otherwise than the one that began the run, or where the
    extra `openevolve` is missing.
    """
    try:
        begun = resume.beginning(tuple(islice(store.read(folder), 1)), folder)
        if begun.imported is not None:
            return begun.imported.islands if len({*begun.imported.islands.values()}) > 1 else {}
        options = search.options_of(begun.config.strategy)
        if not (isinstance(options, SearchOptions) and isinstance(options.library, Islands)):
            return {}
        held = read(folder).population
    except UserError:
        return {}
    return dict(held.homes) if len(held.islands) > 1 else {}


def _judged_at(entries: Sequence[JournalEntry]) -> dict[str, float]:
    """When the first verdict on each candidate was written."""
    verdicts = [(entry.event.candidate_id, entry.at_seconds) for entry in entries if isinstance(entry.event, Judged)]
    return dict(reversed(verdicts))


def _one_island(state: RunState) -> Population:
    """The population of a search without islands: all on one, the fastest in the archive."""
    timed = [(solution.evaluation.candidate_ms, name) for name, solution in state.solutions.items()]
    valid = [(ms, name) for ms, name in timed if ms is not None]
    archive = tuple(name for _, name in sorted(valid, key=lambda pair: pair[0])[:ELITES])
    homes = {ORIGINAL: 0, **{name: 0 for _, name in valid}}
    return Population((tuple(homes),), archive, ({},), (len(valid),), 0, {}, homes)
