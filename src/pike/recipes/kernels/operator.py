"""How a function becomes an operator of PyTorch.

Knows torch.library. Imports nothing of PIKE, because it is copied into candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def define_operator(
    name: str, schema: str, run: Callable[..., Any], empty: Callable[..., Any], key: str = "CompositeExplicitAutograd"
) -> Any:
    """Make a function an operator, so that compilers leave it alone; once in a process.

    Args:
        name: the operator's name, as `pike_room::name`.
        schema: its arguments and result in the language of `torch.library`.
        run: the function.
        empty: gives what `run` returns, without data.
        key: the dispatch key that the function is for.

    Returns:
        The operator, to be called or put into a graph.
    """
    room, _, own = name.partition("::")
    if not hasattr(getattr(torch.ops, room), own):
        torch.library.define(name, schema)
        torch.library.impl(name, key, run)
        torch.library.register_fake(name, empty)
    return getattr(getattr(torch.ops, room), own).default
