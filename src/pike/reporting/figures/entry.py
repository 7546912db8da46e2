"""One line of what was drawn, or could not be.

Knows no figure, so that it is imported quickly.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FigureEntry:
    """One figure of some folders.

    Attributes:
        name: of its files, without ending.
        kind: of figure.
        title: what it shows; what its kind shows where it cannot be drawn.
        missing: why it cannot be drawn, empty where it can.
        files: that were written; empty in a list.
    """

    name: str
    kind: str
    title: str
    missing: str = ""
    files: tuple[Path, ...] = ()
