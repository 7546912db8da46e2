"""Numbers that others published, with their source, to stand beside what was measured here.

Knows the file `published.csv`. Does not know how they are drawn.
"""

import csv
from importlib.resources import files

from pike.reporting.figures.data.records import PublishedFigure


def published() -> tuple[PublishedFigure, ...]:
    """All of them, in the order of the file."""
    text = files("pike.reporting.figures.data").joinpath("published.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return tuple(
        PublishedFigure(row["suite"], row["contender"], row["measure"], row["cut"], float(row["value"]), row["source"])
        for row in csv.DictReader(lines)
    )
