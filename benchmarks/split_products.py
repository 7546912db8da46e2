"""What the recipe `split_products` gains on a GPU, and what it costs in accuracy.

Run `PYTHONPATH=src python3 benchmarks/split_products.py --out FILE`. For the linear layers of Level 3-pike's
transformers: time and error (against float64, over the rms of the truth) of float32, of one TensorFloat-32 product, and
of split products with sums of various lengths. Times are medians of CUDA events, the split of the inputs compiled and
included.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from event_clock import errors, milliseconds

from pike.recipes.precision import split_products as recipe

SHAPES = (
    (65536, 768, 2304),
    (65536, 768, 3072),
    (65536, 3072, 768),
    (16384, 768, 2304),
    (1960, 384, 1536),
    (1960, 1536, 384),
)
SUMS = (4096, 768, 512, 384, 256, 192, 128)


def one_product(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return rows @ weight.t()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


def split(rows: torch.Tensor) -> torch.Tensor:
    lead = recipe.tf32_rounded(rows)
    return torch.cat([recipe.tf32_rounded(rows - lead), lead, lead], dim=1)


def ways(weight: torch.Tensor) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """The layer of a weight, in all the ways that are compared."""
    lead = recipe.tf32_rounded(weight)
    stored = torch.cat([lead, recipe.tf32_rounded(weight - lead), lead], dim=1)
    compiled = torch.compile(split, dynamic=False)

    def split_way(longest: int, rows: torch.Tensor) -> torch.Tensor:
        recipe.LONGEST_SUM = longest
        return recipe.split_linear(compiled(rows), stored, None)

    found: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "float32": lambda rows: rows @ weight.t(),
        "tf32": lambda rows: one_product(rows, weight),
    }
    return found | {f"split, sums of at most {longest}": partial(split_way, longest) for longest in SUMS}


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--out", type=Path, required=True)
    out = given.parse_args().out
    for count, inputs, outputs in SHAPES:
        torch.manual_seed(0)
        rows = torch.randn(count, inputs, device="cuda")
        weight = torch.randn(outputs, inputs, device="cuda") / inputs**0.5
        part = rows[:4096]
        truth = part.double() @ weight.double().t()
        for name, work in ways(weight).items():
            apart = errors(work(part), truth)
            median = milliseconds(partial(work, rows))
            sizes = {"rows": count, "inputs": inputs, "outputs": outputs}
            found = {**sizes, "way": name, "ms": median, **apart}
            print(found, flush=True)
            with out.open("a") as file:
                file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
