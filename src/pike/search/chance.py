"""A set from which a member is drawn in constant time, the same one for the same history.

Knows positions. Does not know what the members are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator


class Urn:
    """Distinct names; the order, and so a draw, depends only on what was put in and taken out, in order."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def add(self, name: str) -> None:
        """Put a name in unless it is there."""
        if name not in self._places:
            self._places[name] = len(self._names)
            self._names.append(name)

    def discard(self, name: str) -> None:
        """Take a name out if it is there; the last one takes its place."""
        place = self._places.pop(name, None)
        if place is None:
            return
        moved = self._names.pop()
        if place < len(self._names):
            self._names[place] = moved
            self._places[moved] = place

    def draw(self, rng: random.Random) -> str:
        """Any name, each as likely as the others.

        Raises:
            ValueError: there is none.
        """
        return self._names[rng.randrange(len(self._names))]
