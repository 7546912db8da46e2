"""What the kernel of the recipe `scan` gains on a GPU.

Run `PYTHONPATH=src python3 benchmarks/scan_steps.py --out FILE` where torch has Triton and an NVIDIA GPU. For the
states of one layer of a selective state-space model (level5/11), of RWKV's chunks (level5/10) and of many more steps:
time and error (against float64, over the rms of the truth) of PyTorch step by step, and of the kernel with a handful of
tiles. Times are medians of CUDA events.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from event_clock import errors, milliseconds

from pike.recipes.kernels.scan_kernel import SCAN_TILES, ScanTiles, scan_steps


class Shape(NamedTuple):
    """The states after all steps, the axis of steps among them."""

    sizes: tuple[int, ...]
    axis: int


SHAPES = (Shape((2, 128, 1024, 16), 1), Shape((2, 16, 7, 64, 64), 2), Shape((8, 2048, 1024, 16), 1))
PAIRS = itertools.product((4, 8, 16, 32), (32, 64, 128, 256))
TILES = tuple(ScanTiles(*pair) for pair in PAIRS if pair[0] * pair[1] <= 4096)  # more do not fit a warp's registers


def step_by_step(decay: torch.Tensor, drive: torch.Tensor, first: torch.Tensor, axis: int) -> torch.Tensor:
    """The states as a loop makes them."""
    states, state = [], first
    for kept, added in zip(decay.unbind(axis), drive.unbind(axis), strict=True):
        state = kept * state + added
        states.append(state)
    return torch.stack(states, axis)


def lines(shape: Shape) -> Iterator[dict[str, Any]]:
    """What was measured for one shape."""
    torch.manual_seed(0)
    decay = torch.rand(shape.sizes, device="cuda")
    drive = torch.randn(shape.sizes, device="cuda")
    given = decay, drive, torch.zeros_like(drive.select(shape.axis, 0))
    truth = step_by_step(*(tensor.double() for tensor in given), shape.axis)
    plain = partial(step_by_step, *given, shape.axis)
    moved = 3 * drive.nbytes
    yield {"way": "torch", "ms": milliseconds(plain), **errors(plain(), truth)}
    for tiles in dict.fromkeys((SCAN_TILES, *TILES)):
        states = torch.full_like(drive, float("nan"))
        run = partial(scan_steps, *given, states, shape.axis, tiles)
        median = milliseconds(run)
        rate = round(moved / median / 1e6)
        yield {"way": "kernel", "tiles": tiles, "ms": median, "gb_per_second": rate, **errors(states, truth)}


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--out", type=Path, required=True)
    with given.parse_args().out.open("a") as file:
        for shape in SHAPES:
            for line in lines(shape):
                text = json.dumps({**shape._asdict(), **line})
                print(text, flush=True)
                file.write(text + "\n")


if __name__ == "__main__":
    main()
