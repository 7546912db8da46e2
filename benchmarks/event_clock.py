"""What the benchmarks of single kernels share: times by CUDA events, and how far an answer is off."""

import statistics
from collections.abc import Callable

import torch

ENOUGH_MS = 120.0


def milliseconds(work: Callable[[], object]) -> float:
    """The median of some calls, fewer where they are slow; the first is not timed."""
    times: list[float] = []
    for _ in range(16):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
        if sum(times) > ENOUGH_MS and len(times) > 3:
            break
    return statistics.median(times[1:])


def errors(answer: torch.Tensor, truth: torch.Tensor) -> dict[str, float]:
    """The largest and the rms error over the rms of the truth."""
    apart, scale = answer.double() - truth, truth.square().mean().sqrt()
    return {"largest": float(apart.abs().max() / scale), "rms": float(apart.square().mean().sqrt() / scale)}
