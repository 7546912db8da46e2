"""The opponents: eager PyTorch and `torch.compile`, judged like any candidate.

Knows what there is to beat. Does not know how candidates are found.
"""

from pike.baselines.measure import Judge, Measured, measure
from pike.baselines.sources import BASELINES, COMPILE, EAGER, Baseline, for_device, source

__all__ = ["BASELINES", "COMPILE", "EAGER", "Baseline", "Judge", "Measured", "for_device", "measure", "source"]
