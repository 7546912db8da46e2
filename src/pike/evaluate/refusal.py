"""How a candidate's failure travels through the judge.

Knows the pair of status and reason, and the words in which a lack of device memory shows. Does not know who raises it
or what becomes of it.
"""

from __future__ import annotations

import re

from pike.core.evaluation import Status

_NO_DEVICE_MEMORY = re.compile(
    r"CUDA out of memory|CUDA (driver )?error: out of memory|CU[A-Z]+_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation"
)


def lacks_device_memory(reason: str) -> bool:
    """Whether a failure is one of PyTorch's, the driver's or a CUDA library's for want of device memory."""
    return _NO_DEVICE_MEMORY.search(reason) is not None


class Refused(Exception):
    """The candidate failed in a way that ends its evaluation.

    Attributes:
        status: the verdict's status, anything but valid.
        reason: one sentence.
    """

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
