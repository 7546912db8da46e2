"""How a kernel's source reaches Triton, which is imported only when a kernel is wanted.

Imports nothing of PIKE, because it is copied into candidates.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Tiles = TypeVar("Tiles")

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


def launch_fitting(launch: Callable[[Tiles], None], choices: Sequence[Tiles]) -> None:
    """Launch a kernel with the first of these tiles that the device has room for.

    Raises:
        triton.OutOfResources: it has room for none of them.
    """
    for chosen in choices:
        try:
            launch(chosen)
            return
        except Exception as error:  # Triton's own class of it is not to be imported before a kernel is wanted
            if type(error).__name__ != "OutOfResources" or chosen == choices[-1]:
                raise
