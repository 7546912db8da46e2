"""Eager times of whole suites without a judge: what the evaluator's own clock has to agree with.

Run `PYTHONPATH=src python3 benchmarks/eager_directly.py level3-pike --out FILE` on a machine with a GPU. Two clocks,
each the median of `--calls` calls after three that warm up, in milliseconds:
- `events`: CUDA events around the call behind a kernel that clears the L2 cache, as published figures are measured.
  While that kernel runs the host is ahead already, so that launching a small model is not seen.
- `wall`: the host's clock from before the call until the device has finished it, which is what somebody waits.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from pike.api.opponents import tasks_named
from pike.core.task import Task
from pike.evaluate.reference import load


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=0.6, help="the most for one task, if five calls fit")
    given = parser.parse_args()
    device = torch.device("cuda")
    place = {"device": torch.cuda.get_device_name(device), "torch": torch.__version__}
    with given.out.open("a") as file:
        for task in (one for target in given.targets for one in tasks_named([target])):
            found = {**measured(task, device, given.calls, given.seconds), **place}
            file.write(json.dumps(found) + "\n")
            file.flush()
            print(f"{task.id:<40} events {found['events_ms']:9.4f} ms  wall {found['wall_ms']:9.4f} ms", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
