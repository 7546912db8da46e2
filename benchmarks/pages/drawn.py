"""The figures on pages of results: what `pike figures` draws from results, or from a campaign that was kept.

Knows which kinds a page shows and where their files lie. Each SVG stands beside the CSV that it is drawn from, which
is the same with every version of matplotlib. Does not draw.
"""

from __future__ import annotations

import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pike
from pages.chart import LEAST_SHARE
from pages.markdown import GENERATED
from pike.core.comparison.results import Result
from pike.reporting.results import ResultsTable
from pike.store import append_result

FOLDER = "assets/results"
"""Below docs; a figure is `FOLDER/NAME/FIGURE.svg`."""
CAMPAIGN, TRUE_CAMPAIGN, GALLERY = "campaign-cpu", "campaign-h100", "campaign-gallery"
OF_GALLERY = ("trajectories", "tasks", "spread", "repairs", "steps", "techniques", "roofline", "tree")
_WRITER = re.compile(r"Matplotlib v[\d.]+")
_LONG = re.compile(r"(?<![\w.])-?\d+\.\d{3,}(?![\w.])")


@dataclass(frozen=True, slots=True)
class DrawnFigures:
    """Figures of one table or campaign.

    Attributes:
        files: the text of each SVG and CSV by its path below docs.
        shown: (title, path below docs) of each figure, in order.
    """

    files: dict[str, str] = field(default_factory=dict)
    shown: tuple[tuple[str, str], ...] = ()

    def images(self, only: str = "") -> Iterator[str]:
        """Each figure, or that of one name, as Markdown for a page in `results`."""
        return (f"![{title}](../{path})" for title, path in self.shown if only in ("", Path(path).stem))


def name_of(page: str, found: ResultsTable) -> str:
    """The folder of a table's figures."""
    return f"{Path(page).stem}-{found.precision.value}"


def of_table(name: str, found: ResultsTable) -> DrawnFigures:
    """Overall speedups and their spread over tasks, of those who were tried on nearly all; then each task."""
    enough = {one.contender.name for one in found.columns if one.tried >= LEAST_SHARE * len(found.tasks)}
    results = [one for one in found.cells.values() if not one.missing]
    overall = [one for one in results if one.contender.name in enough]
    parts = [_of_results(name, overall, "speedups", "spread")] if overall else []
    parts += [_of_results(name, results, "tasks")] if results else []
    return _together(parts)


def beside_published(found: ResultsTable) -> DrawnFigures:
    """Overall speedups with the papers' numbers, for the page of published figures."""
    return _of_results("published", list(found.cells.values()), "speedups", published=True)


def of_campaign(archive: Path) -> DrawnFigures:
    """Every figure of a campaign that `benchmarks/real_campaign.py --pack` kept."""
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        return _drawn(CAMPAIGN, next(Path(scratch).iterdir()))


def of_runs(name: str, *archives: Path, kinds: Sequence[str] = ()) -> DrawnFigures:
    """Figures of runs that were kept, all kinds by default, on the tasks that each of their strategies tried.

    A strategy that several archives hold on one task has that many repeats.
    """
    with tempfile.TemporaryDirectory() as scratch:
        for number, archive in enumerate(archives):
            with tarfile.open(archive) as packed:
                packed.extractall(Path(scratch) / str(number), filter="data")
        runs = [(file.parent, *file.parent.name.split("--")[:2]) for file in Path(scratch).rglob("journal.sqlite")]
        strategies = {strategy for _, _, strategy in runs}
        for run, task, _ in runs:
            if {strategy for _, other, strategy in runs if other == task} != strategies:
                shutil.rmtree(run)
        return _drawn(name, sorted({run.parent for run, _, _ in runs if run.exists()}), *kinds)


def campaign_page(drawn: DrawnFigures, command: str) -> str:
    """The page of that campaign."""
    return _page("# A real campaign on a CPU", _ABOUT, drawn, command)


def true_campaign_page(drawn: DrawnFigures, command: str) -> str:
    """The page of the runs that coding agents answered."""
    return _page("# A campaign answered by coding agents, on an H100", _ABOUT_TRUE, drawn, command)


def gallery_page(drawn: DrawnFigures, command: str) -> str:
    """The page of the gallery's searches on the tasks that several strategies tried."""
    return _page("# Strategies beside each other on four tasks of the gallery", _ABOUT_GALLERY, drawn, command)


def _page(title: str, about: str, drawn: DrawnFigures, command: str) -> str:
    return "\n\n".join([title, GENERATED.format(command=command), about, *drawn.images()]) + "\n"


def is_same(known: str, made: str) -> bool:
    """Whether a file is up to date; what another version of matplotlib draws cannot be compared by bytes.

    The CSV beside it is compared, too.
    """
    writers = [_WRITER.search(text) for text in (known, made)]
    return known == made or (all(writers) and len({found[0] for found in writers if found}) == 2)


_ABOUT = """Every figure that `pike figures` draws, from the journals of one campaign: three tasks, three
strategies and `torch.compile`, with real judges. The answers are a script's, given by two models
of which one costs a quarter. So the figures show what PIKE knows of a campaign, and nothing about
strategies. Other programs held the machine's two cores during most of the timing. No time was
certain enough for a speedup at the end, so every bar of the overall figure is at 1×.

`python benchmarks/real_campaign.py --queries 6 --presets pike-b stark pike-o --thorough
--timing-seconds 1 --pack benchmarks/results/real_campaign_cpu.tar.xz` carried it out."""

_ABOUT_TRUE = """Two tasks of the published Level 3 at `half`, `best-of-n` and `pike-b`, 20 queries each, cold. Each
prompt was answered by a coding agent that saw nothing else ([the
experiment](../experiments/2026-11-26-h100-first-true-campaign.md)). Candidates were judged on one
H100, up to 13 judges side by side, and the best were measured again on fresh data. Minutes
include the waiting for answers. What no run recorded, such as money, has no figure.

The runs are `tests/engine/assets/true_campaign.tar.xz`, those on tasks that both strategies ended.
`pike figures FOLDER` draws the same from the unpacked folder."""


_ABOUT_GALLERY = """Four tasks at `half` (MobileNetV2, a Mamba-2 scan, a Mamba-2 model of 8 layers, ViT-B/16), cold,
12 queries a run, each prompt answered by a coding agent that saw nothing else. Candidates were judged
on H100s, up to 14 judges side by side on each. Speedups are over eager in the same session, and
company slows eager where it waits for the CPU. In two verdicts of `pike-b`, one on the ViT and one on
the task of Level 5, kernels of others ran: its curve on the ViT ends twice too high, and its bar on
Level 5 is another candidate's. [The experiment](../experiments/2026-11-27-h100-strategies-beside.md)
compares times, without those. Minutes include the waiting for answers and for a device, so curves over
minutes do not compare strategies.

The runs are `half`, `beside` and `again` in `benchmarks/gallery`; `pike figures FOLDER ...` draws the
same and more."""


def _of_results(name: str, results: Sequence[Result], *kinds: str, published: bool = False) -> DrawnFigures:
    with tempfile.TemporaryDirectory() as scratch:
        for one in results:
            append_result(Path(scratch) / "results-page.jsonl", one)
        return _drawn(name, Path(scratch), *kinds, published=published)


def _drawn(name: str, source: Path | Sequence[Path], *kinds: str, published: bool = False) -> DrawnFigures:
    with tempfile.TemporaryDirectory() as scratch:
        entries = pike.figures(source, scratch, formats=["svg"], only=kinds, published=published)
        drawn = [entry for entry in entries if entry.files]
        files = [file for entry in drawn for file in entry.files if file.suffix in (".svg", ".csv")]
        texts = {f"{FOLDER}/{name}/{file.name}": file.read_text() for file in files}
    shown = tuple((" ".join(entry.title.split()), f"{FOLDER}/{name}/{entry.name}.svg") for entry in drawn)
    return DrawnFigures({path: _short(text) if path.endswith(".svg") else text for path, text in texts.items()}, shown)


def _short(svg: str) -> str:
    """The same picture with coordinates to a hundredth of a point."""
    return _LONG.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), svg)


def _together(parts: Sequence[DrawnFigures]) -> DrawnFigures:
    files = {path: text for part in parts for path, text in part.files.items()}
    return DrawnFigures(files, tuple(one for part in parts for one in part.shown))
