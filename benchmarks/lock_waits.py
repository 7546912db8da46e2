"""How much of their time cells of a suite waited for the lock of the device.

Run `python benchmarks/lock_waits.py benchmarks/trials/h100-2026-11-24/waiting`. Knows result files, plain or
compressed. A search over recipes counts with its whole time, but only with the verdict of its winner. `others alone`
is the share of a cell's time in which the other workers time something: a cell that may never work meanwhile waits
for so long.
"""

import argparse
from collections import defaultdict
from pathlib import Path

from pike.core.verdict.evaluation import LOCK_WAIT
from pike.store import read_results

HEAD = "| file | cells | workers | timing, at most | alone s | waiting s | cells' s | waiting | others alone |"


def main() -> None:
    """One line for each file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, help="result files, or folders of them")
    given = parser.parse_args()
    files = [file for path in given.paths for file in (sorted(path.glob("*.jsonl*")) if path.is_dir() else [path])]
    print(HEAD + "\n" + "|---" * HEAD.count(" | ") + "|---|")
    for file in files:
        print(line(file))


def line(file: Path) -> str:
    """The row of one file."""
    sums: dict[str, float] = defaultdict(float)
    limits, workers = set(), set()
    for result in read_results([file]):
        if result.evaluation is None:
            continue
        spent, place = dict(result.evaluation.seconds), result.provenance
        limits.add(f"{place.options.max_timing_seconds:g} s, {place.effort.value}")
        workers.add(place.judges)
        sums["cells"] += 1
        sums["alone"] += spent.get("time", 0.0)
        sums["others"] += (place.judges - 1) * spent.get("time", 0.0)
        sums["waiting"] += spent.get(LOCK_WAIT, spent.get("lease", 0.0))
        sums["seconds"] += result.seconds
    if not sums["seconds"]:
        return f"| {file.name} | 0 | | | | | | | |"
    waiting, others = (sums[name] / sums["seconds"] for name in ("waiting", "others"))
    figures = f"{sums['alone']:.0f} | {sums['waiting']:.0f} | {sums['seconds']:.0f} | {waiting:.0%} | {others:.0%}"
    side_by_side = ", ".join(map(str, sorted(workers)))
    return f"| {file.name} | {sums['cells']:.0f} | {side_by_side} | {', '.join(sorted(limits))} | {figures} |"


if __name__ == "__main__":
    main()
