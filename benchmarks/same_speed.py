"""Is equal called equal, and a small gain found? Pairs of reference and candidate whose true ratio is known.

Run `python benchmarks/same_speed.py [--pairs 200] [--planted 100] [--gain 0.03] [--device cpu] --out FILE.json` on an
idle machine. A/A: the candidate is the reference again, so every pair that is called faster is a mistake. A/B: the
candidate does `gain` fewer of the reference's equal steps. Every pair is a whole evaluation with a child of its own,
because what differs between processes is part of the noise. The result is written after every pair, and a second call
with the same file goes on where the first one stopped.
"""

import argparse
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import FASTER_MARGIN, Effort, EvaluateOptions, EvaluationRequest
from pike.judge.client import JudgeClient

STEPS = 34
SOURCE = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(WIDTH) * 0.5)

    def forward(self, x):
        for _ in range(STEPS):
            y = x @ self.weight
        return y


def get_inputs():
    return [torch.randn(WIDTH, WIDTH)]


def get_init_inputs():
    return []
"""


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--pairs", type=int, default=200)
    arguments.add_argument("--planted", type=int, default=100, help="pairs with a planted gain")
    arguments.add_argument("--gain", type=float, default=0.03)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--effort", type=Effort, choices=list(Effort), default=Effort.FINAL)
    arguments.add_argument("--seconds", type=float, default=20.0, help="evaluate.max_timing_seconds")
    arguments.add_argument("--judges", type=int, default=1, help="judges that prepare side by side and time in turn")
    arguments.add_argument("--most-minutes", type=float, default=60.0)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    width = 1024 if given.device.startswith("cuda") else 256
    source = SOURCE.replace("WIDTH", str(width))
    task = Task("steps", "equal steps", TaskKind.SOURCE, source.replace("STEPS", str(STEPS)), "steps.py")
    texts = {"same": candidate(source, STEPS), "less": candidate(source, round(STEPS * (1 - given.gain)))}
    options = EvaluateOptions(device=given.device, threads=1, max_timing_seconds=given.seconds)
    found: dict[str, list[dict[str, object]]] = {"same": [], "less": []}
    if given.out.exists():
        found = json.loads(given.out.read_text())["verdicts"]
    wanted = {"same": given.pairs, "less": given.planted}
    ahead = [name for name in wanted for _ in range(wanted[name] - len(found[name]))]
    random.Random(0).shuffle(ahead)
    judges = [JudgeClient() for _ in range(given.judges)]
    terms = {"machine": judges[0].facts(given.device).name, "torch": torch.__version__, "margin": FASTER_MARGIN}
    terms |= {"gain": given.gain, "effort": given.effort.value, "seconds": given.seconds, "judges": given.judges}
    until, saving = time.monotonic() + 60 * given.most_minutes, threading.Lock()

    def work(judge: JudgeClient) -> None:
        while time.monotonic() < until:
            with saving:
                if not ahead:
                    return
                name = ahead.pop()
            verdict = judge.evaluate(EvaluationRequest(task, texts[name], options, given.effort))
            with saving:
                found[name].append(verdict.flat() | {"faster": bool(verdict.timing and verdict.timing.faster)})
                summary = terms | {name: summed(rows) for name, rows in found.items()}
                given.out.write_text(json.dumps(summary | {"verdicts": found}))

    with ThreadPoolExecutor(given.judges) as pool:
        list(pool.map(work, judges))
    for judge in judges:
        judge.close()
    print(json.dumps(terms | {name: summed(rows) for name, rows in found.items()}, indent=1))


def candidate(source: str, steps: int) -> str:
    return source.replace("STEPS", str(steps)).replace("class Model(", "class ModelNew(")


def summed(rows: list[dict[str, object]]) -> dict[str, object]:
    """Counts and the spread of the speedups (least, quartiles, largest)."""
    speedups = [row["speedup"] for row in rows if row["speedup"] is not None]
    spread = [float(f"{value:.4f}") for value in np.percentile(speedups, [0, 25, 50, 75, 100])] if speedups else []
    return {"pairs": len(rows), "faster": sum(bool(row["faster"]) for row in rows), "speedup": spread}


if __name__ == "__main__":
    main()
