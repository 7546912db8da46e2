"""Strategies at an equal budget on the tasks that all of them tried, for `docs/experiments/*strategies-beside.md`.

Run `python benchmarks/strategies_beside.py [ARCHIVE ...]`; by default it reads the archives of `half` runs in
`benchmarks/gallery`. Prints the best time of the search of every run that has a valid candidate, and for each strategy
how many times faster than `best-of-n` it ended: of all candidates of `best-of-n` on a task as many are drawn as one run
has, without repetition, and one repeat of the other strategy; then the geomean over tasks is taken. The interval holds
95 % of 10,000 such draws. Candidates whose label says that other programs' kernels ran do not count. Runs that have
queries or verdicts to come (*) are not compared.
"""

import random
import statistics
import sys
import tarfile
import tempfile
from collections import defaultdict
from pathlib import Path

from pages.markdown import table

from pike import store
from pike.core.events import Asked, Judged, Proposed, QueryAnswered
from pike.core.verdict.evaluation import SHARED_DEVICE, Effort
from pike.engine.state.resume import state_of

NAMES = ("half", "beside", "again", "others", "third")
CHANCE, DRAWS = "best-of-n", 10_000
Times = list[float]


def main() -> None:
    """Read every run and print the comparison."""
    folder = Path(__file__).parent / "gallery"
    archives = [Path(one) for one in sys.argv[1:]] or [folder / f"{name}.tar.xz" for name in NAMES]
    runs: dict[tuple[str, str], list[tuple[Times, bool]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        for number, archive in enumerate(archives):
            with tarfile.open(archive) as packed:
                packed.extractall(Path(scratch) / str(number), filter="data")
        for file in sorted(Path(scratch).rglob("journal.sqlite")):
            found = read(file.parent)
            if found[0]:
                task, strategy = file.parent.name.split("--")[:2]
                runs[task, strategy].append(found)
    strategies = sorted({strategy for _, strategy in runs})
    tasks = [task for task in sorted({task for task, _ in runs}) if all((task, one) in runs for one in strategies)]
    rows = [[task, *(" / ".join(map(shown, runs[task, each])) for each in strategies)] for task in tasks]
    print(table(["best of each run, ms", *strategies], rows), "\n")
    ended = {key: [times for times, whole in found if whole] for key, found in runs.items()}
    for strategy in strategies:
        if all(ended[task, strategy] for task in tasks):
            low, middle, high = beside_chance([(ended[task, CHANCE], ended[task, strategy]) for task in tasks])
            print(f"{strategy}: {middle:.2f} times as fast as {CHANCE} ({low:.2f} to {high:.2f})")
        else:
            print(f"{strategy}: not compared, no run has ended on some task")


def read(run: Path) -> tuple[Times, bool]:
    """The times of a run's valid candidates in its search, and whether it spent its budget and nothing of it waits."""
    entries = list(store.read(run))
    events = [entry.event for entry in entries]
    judged = [one for one in events if isinstance(one, Judged) and one.effort is Effort.SEARCH]
    proposed, asked, answered = (
        sum(isinstance(one, kind) for one in events) for kind in (Proposed, Asked, QueryAnswered)
    )
    state = state_of(entries, run)  # which counts what was asked as spent
    spent = state.accounts.spend.queries >= (state.config.budget.queries or 0)
    whole = spent and asked == answered and len(judged) == proposed
    found = [one.evaluation for one in judged if SHARED_DEVICE not in one.evaluation.labels]
    return [one.candidate_ms for one in found if one.valid], whole


def shown(run: tuple[Times, bool]) -> str:
    """Its best time, with a star if the run goes on."""
    return f"{min(run[0]):.4g}" + ("" if run[1] else "*")


def beside_chance(tasks: list[tuple[list[Times], list[Times]]]) -> tuple[float, float, float]:
    """Bounds and median of the geomean of the time of `best-of-n` over that of a strategy."""
    draw, found = random.Random(0), []
    for _ in range(DRAWS):
        ratios = []
        for chance, mine in tasks:
            pool = [ms for one in chance for ms in one]
            tried = draw.sample(pool, round(len(pool) / len(chance)))
            ratios.append(min(tried) / min(draw.choice(mine)))
        found.append(statistics.geometric_mean(ratios))
    found.sort()
    return found[DRAWS // 40], found[DRAWS // 2], found[-DRAWS // 40]


if __name__ == "__main__":
    main()
