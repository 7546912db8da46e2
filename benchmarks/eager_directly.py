"""Eager times of whole suites without a judge: what the evaluator's own clock has to agree with.

Run `PYTHONPATH=src python3 benchmarks/eager_directly.py level3-pike --out FILE` on a machine with a GPU. Two clocks,
each the median of `--calls` calls after three that warm up, in milliseconds:
- `events`: CUDA events around the call behind a kernel that clears the L2 cache, as published figures are measured.
  While that kernel runs the host is ahead already, so that launching a small model is not seen.
- `wall`: the host's clock from before the call until the device has finished it, which is what somebody waits.

`--beside RESULTS.jsonl` measures nothing: it shows what FILE holds beside the judge's eager times in RESULTS.jsonl and
beside the published ones, with the clamped geomean of each contender over each of the three.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from pages.published import read_published

from pike import tasks
from pike.core.comparison.results import Result
from pike.core.task import Task
from pike.judge.reference.reference import load
from pike.reporting.results import stem_of, suite_of
from pike.store import read_results

PUBLISHED = Path(__file__).resolve().parent / "published"


def measured(task: Task, device: torch.device, most: int, seconds: float) -> dict[str, object]:
    """One task's record."""
    torch.manual_seed(0)
    reference = load(task)
    model = reference.model.to(device)
    inputs = reference.draw(1)
    args = [one.to(device) if isinstance(one, torch.Tensor) else one for one in inputs.args]
    cold = torch.empty(256 << 20, dtype=torch.uint8, device=device)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    events, wall = [], []
    with torch.no_grad():
        for _ in range(3):
            model(*args, **inputs.kwargs)
        deadline = time.monotonic() + seconds
        while len(wall) < most and (len(wall) < 5 or time.monotonic() < deadline):
            cold.zero_()
            start.record()
            model(*args, **inputs.kwargs)
            end.record()
            torch.cuda.synchronize()
            events.append(start.elapsed_time(end))
            cold.zero_()
            torch.cuda.synchronize()
            began = time.perf_counter()
            model(*args, **inputs.kwargs)
            torch.cuda.synchronize()
            wall.append(1e3 * (time.perf_counter() - began))
    return {"task": task.id, "events_ms": statistics.median(events), "wall_ms": statistics.median(wall),
            "calls": len(wall)}  # fmt: skip


def show_beside(direct: dict[str, dict], results: Sequence[Result]) -> None:
    """The judge's eager times beside the direct ones and the published ones, and every contender over each."""
    published = read_published(PUBLISHED, tuple({suite_of(result.task) for result in results}))
    ratios: dict[str, dict[str, list[float]]] = {}
    for result in results:
        timing, times = result.evaluation and result.evaluation.timing, published.times_of(suite_of(result.task))
        known = direct.get(result.task)
        if not timing or not known or not times:
            continue
        judged, wall, others = timing.reference_ms, known["wall_ms"], times.eager_ms(stem_of(result.task))
        words = f"judged {judged:8.4f}  direct {wall:8.4f}  ratio {judged / wall:5.2f}  published {others:8.4f}"
        print(f"{result.task:<40} {result.contender.name:<24} {words}")
        for clock, eager in (("judged", judged), ("direct", wall), ("published", others)):
            cells = ratios.setdefault(result.contender.name, {}).setdefault(clock, [])
            cells.append(max(1.0, eager / timing.candidate_ms if clock != "judged" else timing.speedup))
    for name, clocks in ratios.items():
        means = (f"{clock} eager {statistics.geometric_mean(found):.2f}x" for clock, found in clocks.items())
        print(f"{name}, {len(clocks['judged'])} tasks, clamped: {', '.join(means)}")


def tasks_of(target: str) -> tuple[Task, ...]:
    """The tasks of a suite, or the one of that name."""
    suite = tasks.suite_of(target)
    return (tasks.resolve(target),) if suite is None else suite.tasks()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=0.6, help="the most for one task, if five calls fit")
    parser.add_argument("--beside", type=Path, help="results of a judge")
    given = parser.parse_args()
    if given.beside:
        known = [json.loads(text) for text in given.out.read_text().splitlines()]
        show_beside({one["task"]: one for one in known}, read_results([given.beside]))
        return
    device = torch.device("cuda")
    place = {"device": torch.cuda.get_device_name(device), "torch": torch.__version__}
    with given.out.open("a") as file:
        for task in (one for target in given.targets for one in tasks_of(target)):
            found = {**measured(task, device, given.calls, given.seconds), **place}
            file.write(json.dumps(found) + "\n")
            file.flush()
            print(f"{task.id:<40} events {found['events_ms']:9.4f} ms  wall {found['wall_ms']:9.4f} ms", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
