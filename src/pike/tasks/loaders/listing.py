"""The list of loaders, and how a name finds the one that has it.

Knows every loader once, and their order: the first loader that knows a name has it. Does not know any kind of place.
"""

from __future__ import annotations

from collections.abc import Callable

from pike.core.config import nearest
from pike.core.errors import UserError
from pike.tasks import variants
from pike.tasks.loaders import folder, huggingface, kernelbench, shipped
from pike.tasks.suite import Suite

Loader = Callable[[str], Suite | None]
"""Turns a name into a suite; None where the name is not of its form, a `UserError` where the place is unusable."""

LOADERS: tuple[Loader, ...] = (shipped.load, huggingface.load, kernelbench.load, folder.load)


def suite_of(name: str) -> Suite | None:
    """The suite that a user calls `name`, the small variants of its tasks for `NAME:small`; None where there is none.

    Raises:
        UserError: there is such a place, and no task in it can be listed.
    """
    stem, wants_small = variants.split(name)
    found = next((suite for load in LOADERS if (suite := load(stem)) is not None), None)
    return found.small() if found is not None and wants_small else found


def load_suite(name: str) -> Suite:
    """The suite that a user calls `name`.

    Args:
        name: a shipped suite, a folder, or `hf:OWNER/NAME[/SPLIT]`, followed by `:small` for small variants.

    Raises:
        UserError: there is no such suite, or no task in it can be listed.
    """
    found = suite_of(name)
    if found is None:
        hint = nearest(variants.split(name)[0], shipped.names())
        raise UserError(f"There is no suite '{name}': give a shipped one, a folder, or hf:OWNER/NAME{hint}")
    return found
