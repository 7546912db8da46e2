"""Every figure of a simulated campaign looks as it did when a person last looked at it.

`python tests/reporting/test_figures_images.py` draws the references anew; look at them before they are kept.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest
from matplotlib.testing.compare import compare_images
from PIL import Image
from simulated_campaign import write_campaign

from pike.reporting.figures.choice import DrawingTerms, draw_all, list_all
from pike.reporting.figures.registry import KINDS

REFERENCES = Path(__file__).parent / "assets" / "figures"
NAMES = sorted(path.stem for path in REFERENCES.glob("*.png"))
TOLERANCE = 5.0
"""Root mean square of 255; other versions of fonts move letters by a part of a pixel."""
LARGEST = 300, 190


def shrink(path: Path, to: Path, colours: int = 0) -> None:
    with Image.open(path) as image:
        scale = min(most / side for most, side in zip(LARGEST, image.size, strict=True))
        size = round(image.width * scale), round(image.height * scale)
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        (small.quantize(colours, dither=Image.Dither.NONE) if colours else small).save(to, optimize=True)


def test_every_kind_can_be_drawn_from_the_simulated_campaign(simulated: Path, drawn: Path) -> None:
    entries = list_all([simulated], DrawingTerms(published=True))
    assert {entry.kind for entry in entries} == {kind.name for kind in KINDS}
    assert [entry.name for entry in entries if entry.missing] == ["similarity-embeddings", "islands"]
    assert (
        sorted(path.stem for path in drawn.glob("*.png")) == NAMES == sorted(path.stem for path in drawn.glob("*.csv"))
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_looks_as_it_did(name: str, drawn: Path, tmp_path: Path) -> None:
    shrink(drawn / f"{name}.png", tmp_path / f"{name}.png")
    difference = compare_images(str(REFERENCES / f"{name}.png"), str(tmp_path / f"{name}.png"), TOLERANCE)
    assert difference is None, difference


def test_another_figure_would_not_pass(tmp_path: Path) -> None:
    other = tmp_path / "other.png"
    with Image.open(REFERENCES / "tree-pike-b.png") as image:
        image.convert("RGB").save(other)
    assert compare_images(str(REFERENCES / "tree-stark.png"), str(other), TOLERANCE) is not None


def test_references_are_small() -> None:
    assert len(NAMES) >= len(KINDS) and all(path.stat().st_size < 15_000 for path in REFERENCES.glob("*.png"))


if __name__ == "__main__":
    REFERENCES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        draw_all([write_campaign(Path(scratch) / "c")], Path(scratch) / "out", ["png"], DrawingTerms(published=True))
        for picture in sorted((Path(scratch) / "out").glob("*.png")):
            shrink(picture, REFERENCES / picture.name, colours=128)
            sys.stdout.write(f"{picture.name}\n")
