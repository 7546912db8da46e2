"""What the kernel of the recipe `routed_experts` gains on a GPU, and what it costs in accuracy.

Run `PYTHONPATH=src python3 benchmarks/expert_products.py --out FILE` where torch has Triton and a GPU of the Hopper
generation. For the experts of DeepSeek-V2/V3 with many rows and with few: time and error (against float64, over the rms
of the truth, for one expert) of PyTorch's products, expert by expert with sizes that the host knows, and of the kernel
with each arithmetic and a handful of tiles. Times are medians of CUDA events. Kernels are compiled first, side by side.
"""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from event_clock import errors, milliseconds

from pike.recipes.kernels.experts_kernel import ExpertTiles, expert_tiles, multiply_experts


class Shape(NamedTuple):
    """The rows of all experts together, how many experts there are, and what each row has before and after."""

    rows: int
    experts: int
    inputs: int
    outputs: int
    dtype: torch.dtype = torch.float32


SHAPES = (
    Shape(49152, 64, 2048, 1408),
    Shape(48, 64, 2048, 1408),
    Shape(49152, 64, 2048, 1408, torch.float16),
)
TILES = (
    ExpertTiles(128, 128, 128, 8, 3),
    ExpertTiles(128, 128, 128, 8, 2),
    ExpertTiles(128, 64, 128, 8, 3),
    ExpertTiles(64, 128, 128, 4, 3),
    ExpertTiles(128, 128, 256, 8, 2),
    ExpertTiles(128, 256, 128, 8, 3),
)
FEW = (ExpertTiles(16, 64, 256, 4, 3), ExpertTiles(32, 64, 256, 4, 3), ExpertTiles(16, 128, 256, 4, 3))


def tensors(shape: Shape) -> list[torch.Tensor]:
    """Rows, weights, where each expert's rows end, and room for the output."""
    torch.manual_seed(0)
    sizes = torch.randint(0, shape.experts, (shape.rows,)).bincount(minlength=shape.experts)
    rows = torch.randn(shape.rows, shape.inputs, device="cuda").to(shape.dtype)
    weights = (torch.randn(shape.experts, shape.outputs, shape.inputs, device="cuda") / shape.inputs**0.5).to(
        shape.dtype
    )
    ends = sizes.cumsum(0).to("cuda", torch.int32)
    return [rows, weights, ends, rows.new_empty(shape.rows, shape.outputs)]


def by_pytorch(rows: torch.Tensor, weights: torch.Tensor, sizes: list[int], output: torch.Tensor) -> None:
    """One product for each expert that has rows."""
    for part, weight, room in zip(rows.split(sizes), weights, output.split(sizes), strict=True):
        torch.mm(part, weight.t(), out=room)


def ways(shape: Shape) -> list[tuple[str, ExpertTiles]]:
    """The arithmetic and the tiles to be tried."""
    kinds = ("bf16x6", "bf16x3") if shape.dtype is torch.float32 else ("ieee",)
    first = expert_tiles(torch.empty(shape.rows, 0, dtype=shape.dtype), shape.experts)[0]
    tried = dict.fromkeys((first, *(FEW if first.block_m < 64 else TILES)))
    return [(kind, tiles) for tiles in tried for kind in kinds]


def attempt(given: list[torch.Tensor], way: tuple[str, ExpertTiles]) -> str:
    """Compile and run the kernel once; why it failed, else empty."""
    try:
        multiply_experts(*given, *way)
        torch.cuda.synchronize()
    except Exception as error:  # Triton raises many kinds where registers or shared memory do not suffice
        return f"{type(error).__name__}: {str(error)[:150]}"
    return ""


def lines(shape: Shape, pool: ThreadPoolExecutor) -> list[dict[str, Any]]:
    """What was measured for one shape."""
    given = tensors(shape)
    rows, weights, ends, output = given
    sizes = ends.diff(prepend=ends.new_zeros(1)).tolist()
    judged = max(range(shape.experts), key=sizes.__getitem__)
    mine = slice(sum(sizes[:judged]), sum(sizes[: judged + 1]))
    truth = rows[mine].double() @ weights[judged].double().t()
    by_pytorch(rows, weights, sizes, output)
    plain = milliseconds(partial(by_pytorch, rows, weights, sizes, output))
    found: list[dict[str, Any]] = [{"way": "torch", "ms": plain, **errors(output[mine], truth)}]
    failures = list(pool.map(partial(attempt, given), ways(shape)))
    for way, failed in zip(ways(shape), failures, strict=True):
        line: dict[str, Any] = {"way": way[0], "tiles": way[1]}
        if failed:
            found.append(line | {"failed": failed})
            continue
        output.fill_(float("nan"))
        median = milliseconds(partial(multiply_experts, *given, *way))
        work = 2 * shape.rows * shape.inputs * shape.outputs
        found.append(line | {"ms": median, "tflops": round(work / median / 1e9, 1), **errors(output[mine], truth)})
    return found


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--out", type=Path, required=True)
    out = given.parse_args().out
    with ThreadPoolExecutor(12) as pool, out.open("a") as file:
        for shape in SHAPES:
            for line in lines(shape, pool):
                text = json.dumps({**shape._asdict(), "dtype": str(shape.dtype), **line})
                print(text, flush=True)
                file.write(text + "\n")


if __name__ == "__main__":
    main()
