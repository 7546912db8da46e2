"""What there is to beat: eager PyTorch, `torch.compile`, CUDA graphs, TensorRT, published
solutions.

Knows how each becomes a candidate that is judged like any other. Does not judge, and does not know
who measures.
"""

from pike.baselines.catalogue import BASELINES, COMPILE, Technique, baseline_named, for_device
from pike.baselines.published import PREFIX, PublishedFolder
from pike.baselines.write import missing_here, source

__all__ = [
    "BASELINES",
    "COMPILE",
    "PREFIX",
    "PublishedFolder",
    "Technique",
    "baseline_named",
    "for_device",
    "missing_here",
    "source",
]
