"""Every figure looks as it did when a person last looked at it: of a simulated campaign, of a real one, of imported runs.

`PYTHONPATH=tests/exchange python tests/reporting/test_figures_images.py` draws the references anew; look at them before
they are kept.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest
from foreign_runs import archipelago, pike_data, shinka
from matplotlib.testing.compare import compare_images
from PIL import Image
from simulated_campaign import write_campaign

import pike
from pike.engine.tools.openevolve import islands_of
from pike.reporting.figures.choice import DrawingTerms, draw_all, list_all
from pike.reporting.figures.registry import KINDS

REFERENCES = Path(__file__).parent / "assets" / "figures"
REAL = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "real_campaign_cpu.tar.xz"
PICTURES = sorted(path.relative_to(REFERENCES).with_suffix("").as_posix() for path in REFERENCES.rglob("*.png"))
TOLERANCE = 5.0
"""Root mean square of 255; other versions of fonts move letters by a part of a pixel."""
LARGEST = 300, 190


def shrink(path: Path, to: Path, colours: int = 0) -> None:
    with Image.open(path) as image:
        scale = min(most / side for most, side in zip(LARGEST, image.size, strict=True))
        size = round(image.width * scale), round(image.height * scale)
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        (small.quantize(colours, dither=Image.Dither.NONE) if colours else small).save(to, optimize=True)


def simulated_campaign(folder: Path) -> list[Path]:
    return [write_campaign(folder / "campaign")]


def real_campaign(folder: Path) -> list[Path]:
    with tarfile.open(REAL) as archive:
        archive.extractall(folder, filter="data")
    return [folder / "campaign"]


def imported_runs(folder: Path) -> list[Path]:
    """A run of each tool."""
    sources = [
        pike_data(folder / "data"),
        archipelago(folder / "evolved/output/checkpoint_16"),
        shinka(folder / "x.db"),
    ]
    return [run for source in sources for run in pike.import_runs(source, folder / "runs")]


SOURCES: dict[str, Callable[[Path], list[Path]]] = {
    "simulated": simulated_campaign,
    "real": real_campaign,
    "imported": imported_runs,
}
LACKING = {"simulated": set[str](), "real": set[str](), "imported": {"models", "roofline", "spread", "time"}}
"""Kinds for which other tools keep nothing, and one run on each task is too little."""
TERMS = DrawingTerms(published=True, islands=islands_of)


def draw(folder: Path, source: str) -> Path:
    """The figures of a source below a folder."""
    (folder / "from" / source).mkdir(parents=True)
    draw_all(SOURCES[source](folder / "from" / source), folder / source, ["png"], TERMS)
    return folder / source


@pytest.fixture(scope="module")
def pictures(drawn: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`pictures(source)`: the folder of its figures, each source drawn once."""
    folder = tmp_path_factory.mktemp("pictures")
    return cache(lambda source: drawn if source == "simulated" else draw(folder, source))


def of_each(names: Iterable[str]) -> list[object]:
    """The simulated campaign has every kind; that the committed one is drawn whole is tested with its page."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (not name.startswith("simulated"))) for name in names]


@pytest.mark.parametrize("source", of_each(SOURCES))
def test_every_kind_that_the_data_allow_can_be_drawn(
    source: str, pictures: Callable[[str], Path], tmp_path: Path
) -> None:
    entries = list_all(SOURCES[source](tmp_path), TERMS)
    found = {entry.kind for entry in entries if not entry.missing}
    assert {kind.name for kind in KINDS} - found == LACKING[source]
    names = sorted(path.stem for path in pictures(source).glob("*.png"))
    assert names == [name.partition("/")[2] for name in PICTURES if name.startswith(f"{source}/")]
    assert names == sorted(path.stem for path in pictures(source).glob("*.csv"))


@pytest.mark.parametrize("name", of_each(PICTURES))
def test_a_figure_looks_as_it_did(name: str, pictures: Callable[[str], Path], tmp_path: Path) -> None:
    source, _, figure = name.partition("/")
    shrink(pictures(source) / f"{figure}.png", tmp_path / "small.png")
    difference = compare_images(str(REFERENCES / f"{name}.png"), str(tmp_path / "small.png"), TOLERANCE)
    assert difference is None, difference


def test_another_figure_would_not_pass(tmp_path: Path) -> None:
    other = tmp_path / "other.png"
    with Image.open(REFERENCES / "simulated" / "tree-pike-b.png") as image:
        image.convert("RGB").save(other)
    assert compare_images(str(REFERENCES / "simulated" / "tree-stark.png"), str(other), TOLERANCE) is not None


def test_references_are_small() -> None:
    assert len(PICTURES) >= 3 * len(KINDS) and all(path.stat().st_size < 15_000 for path in REFERENCES.rglob("*.png"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for picture in sorted(one for source in SOURCES for one in draw(Path(scratch), source).glob("*.png")):
            reference = REFERENCES / picture.parent.name / picture.name
            reference.parent.mkdir(parents=True, exist_ok=True)
            shrink(picture, reference, colours=128)
            sys.stdout.write(f"{picture.parent.name}/{picture.name}\n")
