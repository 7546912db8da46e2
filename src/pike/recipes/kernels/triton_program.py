"""How a kernel's source reaches Triton, which is imported only when a kernel is wanted.

Knows how Triton finds names. Imports nothing of PIKE, because it is copied into candidates.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Tiles = TypeVar("Tiles")

tl: Any = None
"""`triton.language` in the module of a kernel, once `triton_program` has compiled one there."""

constexpr: Any = "constexpr"
"""The annotation of parameters that a kernel is compiled for.

At first the word by which Triton knows such parameters, then its own class of that name.
"""


@functools.cache
def triton_program(kernel: Callable[..., None], *device_functions: str) -> Any:
    """A kernel to be launched on a grid.

    Args:
        kernel: the function; Triton's names become names of its module.
        device_functions: names of functions of the same module that the kernel calls.
    """
    triton, language = importlib.import_module("triton"), importlib.import_module("triton.language")
    scope = kernel.__globals__
    scope.update(tl=language, constexpr=language.constexpr)
    scope.update({name: triton.jit(scope[name]) for name in device_functions})
    return triton.jit(kernel)


def launch_fitting(launch: Callable[[Tiles], None], choices: Sequence[Tiles]) -> None:
    """Launch a kernel with the first of these tiles that the device has room for.

    Raises:
        triton.OutOfResources: the device has room for none of them.
    """
    for tiles in choices:
        try:
            launch(tiles)
            return
        except Exception as error:  # naming Triton's class would import Triton before it is wanted
            if type(error).__name__ != "OutOfResources" or tiles == choices[-1]:
                raise
