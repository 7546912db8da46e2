"""The baselines that a candidate has to beat, by name.

Knows which there are and where each is of use. Does not know how one is written as a candidate
(`write`). A baseline passes the same judge as a candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Technique(Enum):
    """How a baseline runs the model."""

    EAGER = "eager"
    COMPILE = "compile"
    CUDA_GRAPH = "cuda-graph"
    TENSORRT = "tensorrt"


@dataclass(frozen=True, slots=True)
class Baseline:
    """One baseline.

    Attributes:
        name: short and stable, for tables: `eager`, `compile`, `compile:max-autotune`.
        label: what people read.
        mode: the `mode` of `torch.compile` (its documentation lists them), None for the other
            techniques.
        needs_cuda: True if it does something of its own only on a GPU.
        technique: how it runs the model.
    """

    name: str
    label: str
    mode: str | None = None
    needs_cuda: bool = False
    technique: Technique = Technique.EAGER


def _compile(mode: str, label: str, needs_cuda: bool = False) -> Baseline:
    return Baseline(f"compile:{mode}", f"torch.compile, {label}", mode, needs_cuda, Technique.COMPILE)


EAGER = Baseline("eager", "eager PyTorch")
COMPILE = Baseline("compile", "torch.compile", "default", technique=Technique.COMPILE)
CUDA_GRAPH = Baseline("cuda-graph", "CUDA graph of eager", needs_cuda=True, technique=Technique.CUDA_GRAPH)
TENSORRT = Baseline("tensorrt", "TensorRT (torch-tensorrt)", needs_cuda=True, technique=Technique.TENSORRT)
BASELINES: tuple[Baseline, ...] = (
    EAGER,
    COMPILE,
    _compile("reduce-overhead", "reduce-overhead", needs_cuda=True),
    _compile("max-autotune", "max-autotune"),
    _compile("max-autotune-no-cudagraphs", "max-autotune without CUDA graphs", needs_cuda=True),
    CUDA_GRAPH,
    TENSORRT,
)
"""Every baseline, the plain ones first."""


def for_device(is_cuda: bool) -> tuple[Baseline, ...]:
    """The distinct baselines of a device: on a CPU, CUDA-graph modes equal their plain forms."""
    return tuple(baseline for baseline in BASELINES if is_cuda or not baseline.needs_cuda)


def baseline_named(name: str) -> Baseline | None:
    """The baseline of that name, None if there is none."""
    return next((baseline for baseline in BASELINES if baseline.name == name), None)
