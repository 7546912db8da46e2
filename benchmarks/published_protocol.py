"""One evaluation by the published protocol: a cold process that holds the device from load to exit.

Run by `evaluations_per_hour.py` as `python published_protocol.py TASK CANDIDATE DEVICE LOCK`. CANDIDATE may be TASK
itself, which times the reference. One input, allclose at 1e-2, one second of warm-up, five of repetition; prints a
line when it has the device, then one JSON object. It shares its process with the candidate and believes it; that is
what it is compared for.
"""

import fcntl
import json
import runpy
import statistics
import sys
import time
from pathlib import Path

import torch

WARM_SECONDS, REPEAT_SECONDS = 1.0, 5.0


def main() -> None:
    task, candidate, device, lock = sys.argv[1:]
    with open(lock, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        print("locked", flush=True)
        began = time.monotonic()
        result = {"status": "valid"}
        try:
            result |= evaluated(task, candidate, device)
        except Exception as error:
            result = {"status": "refused", "reason": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(result | {"locked_seconds": time.monotonic() - began}), flush=True)


def evaluated(task: str, candidate: str, device: str) -> dict[str, object]:
    original, other = runpy.run_path(task), runpy.run_path(candidate)
    torch.manual_seed(0)
    model = original["Model"](*original["get_init_inputs"]()).eval().to(device)
    torch.manual_seed(0)
    name = "ModelNew" if "ModelNew" in other else "Model"
    new = other[name](*original["get_init_inputs"]()).eval().to(device)
    inputs = [value.to(device) for value in original["get_inputs"]()]
    with torch.no_grad():
        if not torch.allclose(new(*inputs), model(*inputs), atol=1e-2, rtol=1e-2):
            return {"status": "refused", "reason": "the outputs differ"}
        repeat(new, inputs, device, WARM_SECONDS)
        return {"candidate_ms": statistics.mean(repeat(new, inputs, device, REPEAT_SECONDS))}


def repeat(model: object, inputs: list[object], device: str, seconds: float) -> list[float]:
    """Milliseconds of each call, for so many seconds."""
    times, ends = [], time.monotonic() + seconds
    while time.monotonic() < ends:
        times.append(timed(model, inputs, device))
    return times


def timed(model: object, inputs: list[object], device: str) -> float:
    if device == "cpu":
        started = time.perf_counter()
        model(*inputs)
        return (time.perf_counter() - started) * 1e3
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    model(*inputs)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


if __name__ == "__main__":
    if not Path(sys.argv[1]).exists():
        sys.exit(f"no task file {sys.argv[1]}")
    main()
