"""Cold searches of many models on all GPUs of a machine that is lent for a short time.

Run `python benchmarks/zoo_cold.py RESULT.tar.xz TASK ... [--gpus 4] [--each 2] [--minutes 10] [--precision half]`. Each
search is `anytime.py` with one GPU and its share of the CPUs; `--each` searches share a GPU. RESULT holds rows, logs
and `result.json` of every search, renewed as searches end. With `--show` it prints a table from such archives instead:
how much faster than the fastest baseline of the same session each search ended.
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import tarfile
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import geometric_mean

from pages.markdown import table

BASELINES = {"cuda": ("compile", "compile:reduce-overhead", "cuda-graph"), "cpu": ("compile",)}
SETTINGS = ("engine.finalists=1", "evaluate.max_timing_seconds=3")
PACKED = ("*.jsonl", "*/*.log", "*/*/result.json")


def main() -> None:
    """Search, or show what was found."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("result", type=Path)
    arguments.add_argument("tasks", nargs="*")
    arguments.add_argument("--gpus", type=int, default=1)
    arguments.add_argument("--each", type=int, default=2)
    arguments.add_argument("--minutes", type=float, default=10.0)
    arguments.add_argument("--precision", default="half")
    arguments.add_argument("--device", default="cuda", choices=BASELINES)
    arguments.add_argument("--show", action="store_true")
    given = arguments.parse_args()
    if given.show:
        print(shown([given.result, *map(Path, given.tasks)]))
        return
    slots: queue.SimpleQueue[tuple[int, list[int]]] = queue.SimpleQueue()
    cpus, places = sorted(os.sched_getaffinity(0)), given.gpus * given.each
    for place in range(places):
        slots.put((place % given.gpus, cpus[place * len(cpus) // places : (place + 1) * len(cpus) // places] or cpus))
    lock = threading.Lock()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(places) as pool:

        def search(name: str) -> None:
            gpu, mine = slots.get()
            folder = Path(scratch) / name.replace("/", "-").replace(":", "-")
            command = [sys.executable, str(Path(__file__).with_name("anytime.py")), name, "--run", str(folder)]
            command += ["--minutes", str(given.minutes), "--precision", given.precision, "--device", given.device]
            baselines = f"engine.baselines={json.dumps(BASELINES[given.device])}"
            settings = (*SETTINGS, baselines, f"evaluate.threads={min(4, len(mine))}")
            command += [word for one in settings for word in ("--set", one)]
            environment = os.environ | {"CUDA_VISIBLE_DEVICES": str(gpu)}
            try:
                subprocess.run(
                    [*command, "--out", str(folder) + ".jsonl"],
                    env=environment,
                    preexec_fn=lambda: os.sched_setaffinity(0, mine),
                )
            finally:
                slots.put((gpu, mine))
            with lock:
                pack(Path(scratch), given.result)

        list(pool.map(search, given.tasks))


def pack(folder: Path, to: Path) -> None:
    """Keep what the searches that have ended found."""
    new = to.with_suffix(".new")
    with tarfile.open(new, "w:xz") as archive:
        for path in sorted(one for pattern in PACKED for one in folder.glob(pattern)):
            archive.add(path, path.relative_to(folder))
    new.replace(to)


def shown(archives: list[Path]) -> str:
    """Each search that ended, and the geomean over all."""
    rows, ratios = [], []
    for archive in archives:
        with tarfile.open(archive) as packed:
            for member in packed.getmembers():
                file = packed.extractfile(member) if member.name.endswith("result.json") else None
                if file is None:
                    continue
                result = json.load(file)
                ways = {name: one for name, one in result["baselines"].items() if one["candidate_ms"]}
                if not result["finished"] or not result["candidate_ms"] or not ways:
                    rows.append([result["task"], "", "", "not measured to the end"])
                    continue
                fastest = min(ways, key=lambda name: ways[name]["candidate_ms"])
                ratios.append(ways[fastest]["candidate_ms"] / result["candidate_ms"])
                theirs = f"{fastest} {ways[fastest]['speedup']:.2f}x"
                rows.append([result["task"], theirs, f"{result['speedup']:.2f}x", f"{ratios[-1]:.3f}"])
    found = f"geomean of {len(ratios)}: {geometric_mean(ratios):.3f}" if ratios else "none measured to the end"
    return table(["model", "fastest baseline", "recipes", "ratio"], rows) + f"\n\n{found}"


if __name__ == "__main__":
    main()
