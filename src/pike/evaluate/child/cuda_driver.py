"""Calls into the CUDA driver through ctypes, so that neither a compiler nor a package beyond torch is needed.

Knows how a call fails. Does not know what is called for.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any


class CudaDriverError(RuntimeError):
    """A CUDA driver call failed; the message names the call and the driver's error number."""


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
        raise CudaDriverError(f"{name} failed with CUDA error {code}")
