"""The list of loaders, and how a name finds its loader.

Lists every loader once, in order: the first loader that knows a name has it. Does not know any kind
of place.
"""

from collections.abc import Callable

from pike.core.errors import UserError
from pike.core.settings.merging import nearest
from pike.tasks import variants
from pike.tasks.loaders import folder, huggingface, kernelbench, registered, shipped
from pike.tasks.suite import Suite

Loader = Callable[[str], Suite | None]
"""Turns a name into a suite, None for another form; raises `UserError` for a bad place."""

LOADERS: tuple[Loader, ...] = (shipped.load, registered.load, huggingface.load, kernelbench.load, folder.load)


def suite_of(name: str) -> Suite | None:
    """The suite called `name`, None if there is none; see `load_suite`."""
    stem, wants_small = variants.split(name)
    found = next((suite for load in LOADERS if (suite := load(stem)) is not None), None)
    return found.small() if found is not None and wants_small else found


def load_suite(name: str) -> Suite:
    """The suite called `name`.

    Args:
        name: a shipped or registered suite, a folder, or `hf:OWNER/NAME[/SPLIT]`; with `:small` for
            small variants.

    Raises:
        UserError: there is no such suite, or no task in it can be listed.
    """
    found = suite_of(name)
    if found is None:
        hint = nearest(variants.split(name)[0], {*shipped.names(), *registered.registered()})
        raise UserError(
            f"There is no suite '{name}': give a shipped or registered one, a folder, or hf:OWNER/NAME{hint}"
        )
    return found
