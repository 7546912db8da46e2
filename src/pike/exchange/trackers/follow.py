"""One run in one tracker: its journal read from the first entry to the last, while it grows.

Knows that a journal can be read beside its writer. Does not know any tracker, nor when a run ends.
"""

import hashlib
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from pike import store
from pike.core.events import QueryAnswered, QuerySent
from pike.exchange.trackers.listing import TRACKERS
from pike.exchange.trackers.metrics import Metrics, once, parameters
from pike.exchange.trackers.tracker import TrackedPlace, TrackedRun
from pike.reporting import summarise

_TEXTS = (QuerySent, QueryAnswered)


def follow(folder: Path, name: str, out: Path | None, goes_on: Callable[[], bool]) -> TrackedPlace:
    """Track a run until `goes_on` says no, then take what is left.

    Raises:
        UserError: there is no run in `folder`.
        Exception: whatever the tracker raises.
    """
    summary = summarise(folder)
    first = next(islice(store.read(folder), 1))
    key = hashlib.sha256(f"{summary.task.id} {first.at_seconds!r}".encode()).hexdigest()[:16]
    run = TrackedRun(folder.resolve().name, key, folder, out, parameters(summary))
    tracker, metrics, after, kept = TRACKERS[name](run), Metrics(), 0, set[str]()
    going = True
    while going:
        going = goes_on()
        for entry in store.read(folder, after, without_texts=_TEXTS):
            after = entry.seq
            for point in metrics.take(entry):
                tracker.log(point.values, point.step, point.at_seconds)
            for candidate in [one for id, one in metrics.candidates.items() if id not in kept and one.source]:
                tracker.artefact(f"candidates/{candidate.id}.py", candidate.source)
                kept.add(candidate.id)
    return tracker.close({**metrics.single(), **once(summarise(folder))})
