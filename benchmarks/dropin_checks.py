"""What the drop-in's look at its original costs before each call, for a model of about 500 parameters.

python benchmarks/dropin_checks.py
"""

from __future__ import annotations

import argparse
import time
import timeit
from collections.abc import Callable
from operator import attrgetter

import torch
from torch import nn

from pike.api.dropin import DropIn, JudgedCalls
from pike.api.dropin.state import walk
from pike.api.dropin.watch import ModuleWatch
from pike.engine.output.signature import describe


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.last(self.first(self.norm(x)))


class Nothing(nn.Module):
    """A fast form that costs nothing, so that what is left is the drop-in's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.empty(4)


def microseconds(act: Callable[[], object], seconds: float) -> float:
    """The least CPU time of a call: other programs of the machine do not count."""
    calls = max(1, int(seconds / 9 / (timeit.timeit(act, number=5) / 5)))
    return min(timeit.repeat(act, number=calls, repeat=9, timer=time.process_time)) / calls * 1e6


def measure(blocks: int, width: int, seconds: float) -> None:
    model, x = nn.Sequential(*[Block(width) for _ in range(blocks)]).eval(), torch.zeros(1, width)
    state = walk(model)
    watch, tensors, seen = ModuleWatch(state), state.tensors, [tensor.data_ptr() for tensor in state.tensors]
    dropin = DropIn(model, lambda _: Nothing(), JudgedCalls(describe((x,), {}), "cpu"))
    version = attrgetter("_version")

    def slow() -> bool:
        return all(tensor.data_ptr() == address for tensor, address in zip(tensors, seen, strict=True))

    rows: dict[str, Callable[[], object]] = {
        "the original's call": lambda: model(x),
        "a call of the drop-in": lambda: dropin(x),
        "the look alone": watch.unchanged,
        "versions of tensors": lambda: list(map(version, tensors)),
        "addresses of tensors": lambda: list(map(torch.Tensor.data_ptr, tensors)),
        "addresses, in a loop of Python": slow,
        "a walk, where something changed": lambda: walk(model),
    }
    parameters = sum(1 for _ in model.parameters())
    print(f"{parameters} parameters, {len(state.modules)} modules, torch {torch.__version__}")
    for name, act in rows.items():
        print(f"| {name} | {microseconds(act, seconds):.1f} |")
    with dropin.checked_once():
        print(f"| a call inside `checked_once()` | {microseconds(lambda: dropin(x), seconds):.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, nargs="+", default=[1, 8, 84])
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=0.2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        for blocks in given.blocks:
            measure(blocks, given.width, given.seconds)


if __name__ == "__main__":
    main()
