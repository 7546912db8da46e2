"""How a candidate's failure travels through the judge.

Knows the messages that mean too little memory. Does not know the stages.
"""

import re

from pike.core.verdict.evaluation import Status

_NO_DEVICE_MEMORY = re.compile(
    r"CUDA out of memory|CUDA (driver )?error: out of memory|CU[A-Z]+_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation"
)


def lacks_device_memory(reason: str) -> bool:
    """Whether PyTorch, the driver or a CUDA library failed for lack of device memory."""
    return _NO_DEVICE_MEMORY.search(reason) is not None


def lacks_host_memory(error: BaseException) -> bool:
    """Whether Python or PyTorch found too little memory on the host."""
    return isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate" in str(error)


class Refused(Exception):
    """The candidate failed in a way that ends its evaluation; the reason is one sentence.

    `died` says whether its process ended.
    """

    def __init__(self, status: Status, reason: str, died: bool = False) -> None:
        super().__init__(reason)
        self.died = died
        self.status = status
        self.reason = reason
