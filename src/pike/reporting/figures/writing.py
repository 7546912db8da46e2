"""Figures as files: each in every wanted format, with its CSV.

Knows matplotlib, which is imported here and when the first figure is drawn. Does not know any kind
of figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

from pike.core.errors import StoreError, UserError, saying
from pike.reporting.figures.drawing import Drawing

FORMATS = ("png", "pdf", "svg")
_TITLE_INCHES = 0.088
"""What a letter of a title takes; a figure is at least as wide as its title."""
INSTALL = "pip install 'pike-torch[figures]'"


def check_formats(formats: Sequence[str]) -> None:
    """Refuse a format that figures are not written in, and a machine that cannot draw.

    Raises:
        UserError: naming the format, or the extra that is missing.
    """
    wrong = [one for one in formats if one not in FORMATS]
    if wrong or not formats:
        named = f"'{wrong[0]}'" if wrong else "an empty list"
        raise UserError(f"Figures are written as {', '.join(FORMATS)}, not as {named}: choose among these")
    if find_spec("matplotlib") is None:
        raise UserError(f"Figures are drawn by matplotlib: {INSTALL}")


def write_drawing(drawing: Drawing, folder: Path, formats: Sequence[str]) -> tuple[Path, ...]:
    """Write a figure, its CSV and its further texts; returns the paths.

    Raises:
        StoreError: the disk refuses.
    """
    with saying(StoreError, f"Figures cannot be written to '{folder}'", "choose another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / f"{drawing.name}.{ending}" for ending in formats]
        _draw(drawing, written)
        for ending, text in ((".csv", drawing.sheet.csv()), *drawing.texts):
            path = folder / f"{drawing.name}{ending}"
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return tuple(written)


def _draw(drawing: Drawing, paths: Sequence[Path]) -> None:
    import matplotlib.style
    from matplotlib.figure import Figure

    with as_file(files("pike.reporting.figures") / "pike.mplstyle") as sheet, matplotlib.style.context(sheet):
        widest = max(map(len, drawing.title.splitlines()))
        figure = Figure(figsize=(max(drawing.size[0], _TITLE_INCHES * widest), drawing.size[1]))
        figure.suptitle(drawing.title, x=0.01, ha="left", fontsize=9, weight="bold")
        drawing.draw(figure, drawing.sheet)
        for path in paths:
            # Without dates and versions the same journal gives the same file.
            dated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(path.suffix, {"Software": None})
            figure.savefig(path, metadata=dated)
