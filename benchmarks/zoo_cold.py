"""Cold searches of many models on all GPUs of a machine that is lent for a short time.

Run `python benchmarks/zoo_cold.py RESULT.tar.xz TASK ... [--gpus 4] [--each 2] [--minutes 10] [--precision half]`. Each
search is `anytime.py` with one GPU and its share of the CPUs; `--each` searches share a GPU. RESULT holds rows, logs
and `result.json` of every search, renewed as searches end. `zoo_beside.py` measures what they found beside baselines:
within the time of a search there is too little left for those.
"""

import argparse
import os
import queue
import subprocess
import sys
import tarfile
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SETTINGS = ("engine.finalists=1", "engine.baselines=[]", "evaluate.max_timing_seconds=3")
PACKED = ("*.jsonl", "*/*.log", "*/*/result.json")


def main() -> None:
    """Search."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("result", type=Path)
    arguments.add_argument("tasks", nargs="*")
    arguments.add_argument("--gpus", type=int, default=1)
    arguments.add_argument("--each", type=int, default=2)
    arguments.add_argument("--minutes", type=float, default=10.0)
    arguments.add_argument("--precision", default="half")
    arguments.add_argument("--device", default="cuda")
    given = arguments.parse_args()
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
            settings = (*SETTINGS, f"evaluate.threads={min(4, len(mine))}")
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


if __name__ == "__main__":
    main()
