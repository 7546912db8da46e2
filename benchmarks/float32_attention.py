"""What the kernel of the recipe `float32_attention` gains on a GPU, and what it costs in accuracy.

Run `PYTHONPATH=src python3 benchmarks/float32_attention.py --out FILE [--minutes 1.5]` where torch has Triton and a GPU
of the Hopper generation. For shapes of Level 3-pike's models: time and error (against float64, over the rms of the
truth, for some queries of some heads) of PyTorch's own attention in float32, of the same in float16 for scale, and of
the kernel with each arithmetic and a handful of tiles, the most promising first, until the time is over. Times are
medians of CUDA events. Kernels are compiled ahead by other processes, into Triton's cache.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from event_clock import errors, milliseconds
from torch.nn.functional import scaled_dot_product_attention

from pike.recipes.kernels import attention_kernel
from pike.recipes.kernels.attention_kernel import AttentionTerms, AttentionTiles, attend, attention_tiles


class Shape(NamedTuple):
    """One call of attention."""

    batch: int
    heads: int
    queries: int
    keys: int
    size: int
    causal: bool


class Way(NamedTuple):
    """One way to run the kernel."""

    arithmetic: str
    tiles: AttentionTiles


SHAPES = (
    Shape(2, 4, 16384, 16384, 32, False),
    Shape(128, 8, 512, 512, 96, True),
    Shape(16, 8, 1024, 1024, 64, False),
    Shape(1, 16, 4096, 4096, 128, False),
    Shape(8, 3, 1370, 1370, 64, False),
)
ARITHMETIC = ("bf16x6", "bf16x3", "tf32x3", "tf32")
TILES = (
    AttentionTiles(128, 32, 8, 2),
    AttentionTiles(64, 32, 4, 2),
    AttentionTiles(128, 64, 8, 2),
    AttentionTiles(64, 64, 4, 2),
    AttentionTiles(128, 32, 4, 2),
    AttentionTiles(128, 64, 8, 3),
    AttentionTiles(64, 32, 4, 3),
    AttentionTiles(128, 128, 8, 2),
    AttentionTiles(128, 64, 4, 2),
    AttentionTiles(64, 64, 8, 2),
)
PROCESSES = 12
JUDGED_HEADS, JUDGED_QUERIES = 8, 512


def tensors(shape: Shape, device: str) -> list[torch.Tensor]:
    """Queries, keys and values as a model's projections leave them, and room for the output."""
    torch.manual_seed(0)
    tokens = (shape.queries, shape.keys, shape.keys, shape.queries)
    drawn = [
        torch.randn(shape.batch, count, shape.heads, shape.size, device=device).transpose(1, 2) for count in tokens
    ]
    drawn[0].mul_(2.0)  # scores of standard deviation 2
    return drawn


class Compiling:
    """Stands in for a kernel: what would be launched is only compiled, into Triton's cache."""

    def __init__(self, program: Any) -> None:
        self.program = program

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., object]:
        return partial(self.program.warmup, grid=grid)


def compile_ahead(shape: Shape, way: Way) -> None:
    """Compile the kernel for one call, in a process that does nothing else."""
    program = Compiling(attention_kernel.attention_program())
    with mock.patch.object(attention_kernel, "attention_program", return_value=program):
        attend(*tensors(shape, "meta"), AttentionTerms(1.0, shape.causal, False, way.arithmetic), way.tiles)


def judged(answer: torch.Tensor) -> torch.Tensor:
    """The part of an answer whose error is taken: the last queries of the first batch's heads."""
    return answer[:1, :JUDGED_HEADS, -JUDGED_QUERIES:]


def truth(given: list[torch.Tensor], shape: Shape) -> torch.Tensor:
    """The same part in float64."""
    query, key, value = judged(given[0]).double(), *(one[:1, :JUDGED_HEADS].double() for one in given[1:3])
    scores = query @ key.transpose(-2, -1) * shape.size**-0.5
    if shape.causal:
        rows = torch.arange(shape.queries, device=query.device)[-JUDGED_QUERIES:, None]
        scores = scores.masked_fill(torch.arange(shape.keys, device=query.device) > rows, float("-inf"))
    return scores.softmax(-1) @ value


class Notes:
    """The lines of the results, in a file and on the screen; times with the share of the work that is seen."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.found: list[dict[str, Any]] = []

    def add(self, shape: Shape, way: str, **found: Any) -> None:
        line = {**shape._asdict(), "way": way, **found}
        if "ms" in line:
            work = 4 * shape.batch * shape.heads * shape.queries * shape.keys * shape.size / (1 + shape.causal)
            line["tflops"] = round(work / line["ms"] / 1e9, 1)
        self.found.append(line)
        print(json.dumps(line), flush=True)
        with self.file.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def best(self) -> Iterator[dict[str, Any]]:
        """The fastest line of each shape and way."""
        timed = [line for line in self.found if "ms" in line]
        for shape, way in itertools.product(SHAPES, dict.fromkeys(line["way"] for line in timed)):
            lines = [line for line in timed if line["way"] == way and shape._asdict().items() <= line.items()]
            yield from sorted(lines, key=lambda line: line["ms"])[:1]


def measure(notes: Notes, shape: Shape, way: Way, given: list[torch.Tensor], right: torch.Tensor) -> None:
    """One configuration of the kernel; one that does not fit is a line too."""
    scale = shape.size**-0.5
    try:
        given[3].fill_(float("nan"))
        work = partial(attend, *given, AttentionTerms(scale, shape.causal, False, way.arithmetic), way.tiles)
        median = milliseconds(work)
    except Exception as error:  # Triton raises many kinds where registers or shared memory do not suffice
        notes.add(shape, way.arithmetic, tiles=way.tiles, failed=f"{type(error).__name__}: {str(error)[:150]}")
        return
    default = way.tiles == attention_tiles(shape.size, way.arithmetic)[0]
    notes.add(shape, way.arithmetic, tiles=way.tiles, ms=median, default=default, **errors(judged(given[3]), right))


def references(notes: Notes, shape: Shape, given: list[torch.Tensor], right: torch.Tensor) -> None:
    """PyTorch's own attention in float32 and in float16."""
    for name, dtype in (("torch float32", torch.float32), ("torch float16", torch.float16)):
        query, key, value = (one.to(dtype) for one in given[:3])
        work = partial(scaled_dot_product_attention, query, key, value, is_causal=shape.causal)
        notes.add(shape, name, ms=milliseconds(work), **errors(judged(work()), right))


def in_order() -> list[tuple[Shape, Way]]:
    """All configurations: those that the recipe would take first, then tiles by promise, shape by shape."""
    ways = [[Way(kind, attention_tiles(shape.size, kind)[0]) for kind in ARITHMETIC] for shape in SHAPES]
    first = [(shape, way) for shape, those in zip(SHAPES, ways, strict=True) for way in those]
    others = [(shape, Way(kind, tiles)) for tiles in TILES for kind in ARITHMETIC for shape in SHAPES]
    return list(dict.fromkeys(first + others))


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--out", type=Path, required=True)
    given.add_argument("--minutes", type=float, default=1.5)
    terms = given.parse_args()
    end = time.monotonic() + 60 * terms.minutes
    notes = Notes(terms.out)
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        ahead: dict[tuple[Shape, Way], Future[None]] = {one: pool.submit(compile_ahead, *one) for one in in_order()}
        material = {}
        for shape in SHAPES:
            drawn = tensors(shape, "cuda")
            material[shape] = (drawn, truth(drawn, shape))
            references(notes, shape, *material[shape])
        while ahead and time.monotonic() < end:
            wait(ahead.values(), timeout=1.0, return_when="FIRST_COMPLETED")
            one = next((one for one, compiled in ahead.items() if compiled.done()), None)
            if one is not None:
                del ahead[one]
                measure(notes, *one, *material[one[0]])
        pool.shutdown(wait=False, cancel_futures=True)
    print(f"the best of each; {len(ahead)} configurations were not reached", flush=True)
    for line in notes.best():
        print(json.dumps(line))


if __name__ == "__main__":
    main()
