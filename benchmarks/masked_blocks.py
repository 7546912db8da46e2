"""What the recipe `prefix_attention` gains: attention under a mask of frames against the same attention frame by frame.

Run `python benchmarks/masked_blocks.py [--device cuda]`; needs torch only. Medians of seven calls, two samples, four
heads of 64 numbers in float32.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional as F

SIZES = ((256, 32), (512, 64), (1024, 128), (2048, 256), (4096, 512))


def milliseconds(work: Callable[[], object], device: str) -> float:
    times = []
    for _ in range(9):
        start = time.perf_counter()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[2:])


def frame_by_frame(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, frame: int) -> torch.Tensor:
    starts = range(0, query.shape[-2], frame)
    parts = [(query[:, :, at : at + frame], key[:, :, : at + frame], value[:, :, : at + frame]) for at in starts]
    return torch.cat([F.scaled_dot_product_attention(*part) for part in parts], -2)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--device", default="cpu")
    device = given.parse_args().device
    for tokens, frame in SIZES:
        operands = [torch.randn(2, 4, tokens, 64, device=device) for _ in range(3)]
        frames = torch.arange(tokens, device=device) // frame
        mask = frames[:, None] >= frames
        masked = milliseconds(partial(F.scaled_dot_product_attention, *operands, mask), device)
        blocks = milliseconds(partial(frame_by_frame, *operands, frame), device)
        print(f"{tokens:5} tokens in frames of {frame:4}: masked {masked:8.2f} ms, frame by frame {blocks:8.2f} ms")


if __name__ == "__main__":
    main()
