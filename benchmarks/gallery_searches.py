"""How far the gallery's searches have come, for `docs/experiments/*gallery-searches.md`.

Run `python benchmarks/gallery_searches.py [ARCHIVE ...]`; by default it reads `half.tar.xz` and `same.tar.xz` of
`benchmarks/gallery`. Prints for each search the original, the fastest recipe seed and the fastest candidate with what
it was made from (times of the search, in ms), the geomean of seed over candidate, and for each way of writing kernels
how long a file took from its build to its first answer (medians, in seconds).
"""

import statistics
import sys
import tarfile
import tempfile
from collections import defaultdict
from pathlib import Path

from pike import store
from pike.core.events import Admitted, Judged, Proposed
from pike.core.verdict.evaluation import Effort

WAYS = {"load_inline": "load_inline", "_compile_kernel": "NVRTC", "triton.jit": "Triton"}
READY = ("build", "load", "first-call")


def main() -> None:
    """Read every run of the archives and print what its journal says."""
    folder = Path(__file__).parent / "gallery"
    archives = [Path(one) for one in sys.argv[1:]] or [folder / "half.tar.xz", folder / "same.tar.xz"]
    gains, ready, lines, waits = [], defaultdict(list), [], []
    with tempfile.TemporaryDirectory() as scratch:
        for archive in archives:
            with tarfile.open(archive) as packed:
                packed.extractall(scratch, filter="data")
        for run in sorted(Path(scratch).glob("*/runs/*")):
            events = [entry.event for entry in store.read(run)]
            candidates = {event.candidate.id: event.candidate for event in events if isinstance(event, Proposed)}
            sources = {name: candidate.source for name, candidate in candidates.items()}
            found = [event for event in events if isinstance(event, Judged) and event.effort is Effort.SEARCH]
            seeds = [e.evaluation.candidate_ms for e in events if isinstance(e, Admitted) and e.evaluation.candidate_ms]
            for event in found:
                source, seconds = sources[event.candidate_id], dict(event.evaluation.seconds)
                way = next((name for word, name in WAYS.items() if word in source), "PyTorch")
                ready[way].append(sum(seconds.get(stage, 0.0) for stage in READY))
                lines.append(len(source.splitlines()))
                waits.append(seconds.get("lock-wait", 0.0))
            valid = [event for event in found if event.evaluation.valid]
            name = run.name.partition("--1-")[0]
            if not valid:
                print(f"{name}: {len(sources)} candidates, {len(found)} judged, none valid yet")
                continue
            best = min(valid, key=lambda event: event.evaluation.candidate_ms)
            written = candidates[best.candidate_id]
            made = "repairs" if written.note.startswith("fix ") else f"from {written.parent or 'original'}"
            originals = [event.evaluation.timing.reference_ms for event in valid]
            words = f"{best.candidate_id} {best.evaluation.candidate_ms:.4g}, {len(valid)} of {len(found)} valid"
            if seeds:
                gains.append(min(seeds) / best.evaluation.candidate_ms)
                words += f", {len(seeds)} seeds {min(seeds):.4g}, seed / search {gains[-1]:.2f}"
            print(f"{name}: original {statistics.median(originals):.4g} (median), {words}, {made}")
    if gains:
        print(f"geomean of {len(gains)}: {statistics.geometric_mean(gains):.3f}")
    for way, seconds in ready.items():
        print(f"{way}: {len(seconds)} files, ready after {statistics.median(seconds):.1f} s")
    if lines:
        print(f"{len(lines)} files, {statistics.median(lines):g} lines, {statistics.median(waits):.1f} s for the lock")


if __name__ == "__main__":
    main()
