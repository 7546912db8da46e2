"""The opponents that a candidate has to beat, by name.

Knows which there are and where each is of use. Does not know how one is written as a candidate (`write`) or judged
(`measure`), and gives none a privilege: a baseline passes the same judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Way(Enum):
    """How a baseline runs the model."""

    EAGER = "eager"
    COMPILE = "compile"
    CUDA_GRAPH = "cuda-graph"
    TENSORRT = "tensorrt"


@dataclass(frozen=True, slots=True)
class Baseline:
    """One opponent.

    Attributes:
        name: short and stable, for tables: `eager`, `compile`, `compile:max-autotune`.
        label: what people read.
        mode: the `mode` of `torch.compile` (its documentation lists them), None for the other ways.
        needs_cuda: True where it does something of its own only on a GPU.
        way: how it runs the model.
    """

    name: str
    label: str
    mode: str | None = None
    needs_cuda: bool = False
    way: Way = Way.EAGER


EAGER = Baseline("eager", "eager PyTorch")
COMPILE = Baseline("compile", "torch.compile", "default", way=Way.COMPILE)
MAX_AUTOTUNE = Baseline("compile:max-autotune", "torch.compile, max-autotune", "max-autotune", way=Way.COMPILE)
CUDA_GRAPH = Baseline("cuda-graph", "CUDA graph of eager", needs_cuda=True, way=Way.CUDA_GRAPH)
TENSORRT = Baseline("tensorrt", "TensorRT (torch-tensorrt)", needs_cuda=True, way=Way.TENSORRT)
BASELINES: tuple[Baseline, ...] = (
    EAGER,
    COMPILE,
    Baseline(
        "compile:reduce-overhead",
        "torch.compile, reduce-overhead",
        "reduce-overhead",
        needs_cuda=True,
        way=Way.COMPILE,
    ),
    MAX_AUTOTUNE,
    Baseline(
        "compile:max-autotune-no-cudagraphs",
        "torch.compile, max-autotune without CUDA graphs",
        "max-autotune-no-cudagraphs",
        needs_cuda=True,
        way=Way.COMPILE,
    ),
    CUDA_GRAPH,
    TENSORRT,
)
"""Every opponent, the plain ones first."""


def for_device(is_cuda: bool) -> tuple[Baseline, ...]:
    """The opponents that are distinct on a device: on a CPU the CUDA-graph modes equal their plain forms."""
    return tuple(baseline for baseline in BASELINES if is_cuda or not baseline.needs_cuda)
