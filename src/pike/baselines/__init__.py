"""The opponents, judged like any candidate: eager PyTorch, `torch.compile`, CUDA graphs, TensorRT, published solutions.

Knows what there is to beat. Does not know how candidates are found.
"""

from pike.baselines.measure import Judge, Measured, measure, missing_here
from pike.baselines.published import PREFIX, Published
from pike.baselines.sources import BASELINES, COMPILE, EAGER, MAX_AUTOTUNE, Baseline, Way, for_device
from pike.baselines.write import source

__all__ = [
    "BASELINES",
    "COMPILE",
    "EAGER",
    "MAX_AUTOTUNE",
    "PREFIX",
    "Baseline",
    "Judge",
    "Measured",
    "Published",
    "Way",
    "for_device",
    "measure",
    "missing_here",
    "source",
]
