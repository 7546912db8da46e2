"""How a kernel's source reaches Triton, which is imported only when a kernel is wanted.

Imports nothing of PIKE, because it is copied into candidates.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

tile_language: Any = None
"""`triton.language` in the module of a kernel, once `triton_program` has compiled one there."""

constexpr: Any = "constexpr"
"""What Triton compiles a kernel for: the word by which it knows such parameters, then its own class of that name."""


@functools.cache
def triton_program(kernel: Callable[..., None]) -> Any:
    """A kernel to be launched on a grid; what it knows Triton by is put among the names of its module."""
    language = importlib.import_module("triton.language")
    kernel.__globals__.update(tile_language=language, constexpr=language.constexpr)
    return importlib.import_module("triton").jit(kernel)
