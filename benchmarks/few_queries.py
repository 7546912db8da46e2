"""What `few_queries` brings to decoding steps: eager, the folded graph, and the folded graph with the recipe.

Run `python benchmarks/few_queries.py TASK ... [--threads 2] [--rounds 15]`. Calls take turns; prints medians in
milliseconds, how many times faster than the folded graph the recipe makes it, and the largest difference from eager.
"""

import argparse
import time
import warnings
from collections import defaultdict
from statistics import median

import torch

from pike import tasks
from pike.engine.output import originals
from pike.recipes.capture.graph import capture_graph
from pike.recipes.layout.fold_constants import fold_constants
from pike.recipes.rewrites.few_queries import few_queries


def main() -> None:
    """Measure each task."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("tasks", nargs="+")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--rounds", type=int, default=15)
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(given.threads)
    for name in given.tasks:
        with torch.no_grad():
            measure(name, given.rounds)


def measure(name: str, rounds: int) -> None:
    """Print what the calls of one task take."""
    reference = originals.load(tasks.resolve(name)).reference
    args = tuple(reference.draw(3).args)
    graph = fold_constants(capture_graph(reference.model, args, {}), args, {})
    few = fold_constants(few_queries(reference.model, args, {}), args, {})
    ways = {"eager": reference.model, "folded": graph, "few_queries": few}
    seconds: dict[str, list[float]] = defaultdict(list)
    for turn in range(rounds + 2):
        for way, function in ways.items():
            began = time.perf_counter()
            function(*args)
            if turn >= 2:
                seconds[way].append(time.perf_counter() - began)
    wanted, got = (torch.utils._pytree.tree_leaves(one(*args)) for one in (reference.model, few))
    error = max(float((mine - own).abs().max()) for mine, own in zip(got, wanted, strict=True))
    middle = {way: 1e3 * median(taken) for way, taken in seconds.items()}
    words = "  ".join(f"{way} {ms:.1f} ms" for way, ms in middle.items())
    print(f"{name}: {words}  folded / few_queries {middle['folded'] / middle['few_queries']:.2f}  error {error:.1e}")


if __name__ == "__main__":
    main()
