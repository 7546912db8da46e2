"""Calls into the CUDA driver through ctypes, so that neither a compiler nor a package beyond torch is needed.

Knows how a call fails. Does not know what is called for.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

_OUT_OF_MEMORY = 2


class CudaDriverError(RuntimeError):
    """A CUDA driver call failed; the message names the call and the driver's error number.

    Args:
        name: of the call.
        code: what it returned.
    """

    def __init__(self, name: str, code: int) -> None:
        words = "CUDA error: out of memory" if code == _OUT_OF_MEMORY else f"CUDA error {code}"
        super().__init__(f"{name} failed with {words}")


@functools.cache
def driver() -> ctypes.CDLL:
    """The driver's library; the context that its calls refer to is the one that torch made current."""
    return ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: Any) -> None:
    """Call a function of the driver.

    Args:
        name: for example `cuMemCreate`.
        arguments: ctypes values in the order of the driver's documentation.

    Raises:
        CudaDriverError: it returned anything but success.
    """
    code = getattr(driver(), name)(*arguments)
    if code:
        raise CudaDriverError(name, code)
