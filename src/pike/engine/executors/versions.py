"""The versions that a verdict rests on, compared before another machine judges.

Knows packages by their metadata and imports none of them. Does not know how machines talk.
"""

import functools
from collections.abc import Sequence
from importlib import metadata

import pike

Versions = tuple[tuple[str, str], ...]


@functools.cache
def versions() -> Versions:
    """(name, version) of what verdicts rest on; torch is not imported."""
    return ("pike", pike.__version__), *((name, metadata.version(name)) for name in ("torch", "numpy"))


def unlike(there: Sequence[tuple[str, str]], here: Sequence[tuple[str, str]]) -> str:
    """What differs there from here, empty where nothing does."""
    known = dict(there)
    pairs = ((name, known.get(name, "none"), mine) for name, mine in here)
    return ", ".join(f"{name} {other} instead of {mine}" for name, other, mine in pairs if other != mine)
