"""The figures of runs, campaigns and suites, each with the values that it is drawn from.

Knows how material becomes files. Matplotlib is imported only when something is drawn.
"""

from pike.reporting.figures.choice import FigureEntry, draw_all, list_all

__all__ = ["FigureEntry", "draw_all", "list_all"]
