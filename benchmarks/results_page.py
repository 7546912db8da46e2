"""Generates docs/results/ and its figures from committed results files, a kept campaign and published figures.

Run `python benchmarks/results_page.py` after files under benchmarks/results have changed. `--check`
only says whether the pages are up to date (exit code 1 where they are not). A script and not a
command of `pike`: the pages belong to this repository, and so do the published figures on them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pages import drawn
from pages.chart import chart
from pages.cold import NO_SEARCHES, ColdSearches, read_cold
from pages.index_page import index_page, published_page
from pages.published import read_published
from pages.several_gpus_page import Host, in_words, read_hosts, several_gpus_pages
from pages.suite_page import Context, page_name, suite_page

from pike.core.comparison.results import Result, digest
from pike.engine.tools import gallery
from pike.reporting.results import ResultsTable, tables
from pike.store import read_results

ROOT = Path(__file__).resolve().parent.parent
SUITES = ("level3-pike", "level5")
TASKS = ROOT / "src" / "pike" / "tasks" / "suites"
BASELINES = ("compile", "compile:reduce-overhead", "compile:max-autotune", "cuda-graph", "tensorrt")
"""What a whole suite is to be compared with, measured or not (names of `pike.baselines`, which
needs torch)."""
COMMAND = "python benchmarks/results_page.py"
CHARTED = "level3-pike-h100"
CAMPAIGN = "real_campaign_cpu.tar.xz"
TRUE_CAMPAIGN = ROOT / "tests" / "engine" / "assets" / "true_campaign.tar.xz"
GALLERY = [ROOT / "benchmarks" / "gallery" / f"{name}.tar.xz" for name in ("half", "beside", "again")]


def pages(
    results: Sequence[Result],
    published: Path,
    cold: ColdSearches = NO_SEARCHES,
    hosts: Sequence[Host] = (),
    winners: Sequence[Result] = (),
) -> dict[str, str]:
    """Every generated file by its path below docs."""
    members = {
        f"{suite}/{path.stem}": digest(path.read_text())
        for suite in SUITES
        for path in (TASKS / suite).glob("[0-9]*_*.py")
    }
    known = read_published(published, SUITES)
    found = tables(results, members, BASELINES)
    grouped: dict[str, list[ResultsTable]] = {}
    for one in found:
        grouped.setdefault(page_name(one.suite, one.device), []).append(one)
    figures = {
        name: drawn.of_table(name, one)
        for page, group in grouped.items()
        for one in group
        for name in [drawn.name_of(page, one)]
    }
    context = Context(known, COMMAND, members, cold, figures, winners)
    compared = [one for page, group in grouped.items() if page == f"{CHARTED}.md" for one in group][:1]
    beside = [drawn.beside_published(one) for one in compared]
    made = {
        "results/index.md": index_page(found, context, in_words(hosts) if hosts else ""),
        "results/published.md": published_page(known, COMMAND, *beside),
    }
    for name, group in grouped.items():
        made[f"results/{name}"] = suite_page(group, context)
    if f"{CHARTED}.md" in grouped:
        made[f"assets/{CHARTED}.svg"] = chart(grouped[f"{CHARTED}.md"])
    for one in (*figures.values(), *beside):
        made |= one.files
    return made | (several_gpus_pages(hosts, COMMAND) if hosts else {})


def verified_winners() -> list[Result]:
    """The results of the gallery's winners that were verified."""
    return [result for entry in gallery.entries() if (result := entry.verified)]


def campaign_pages(archive: Path) -> dict[str, str]:
    """The page of a kept campaign, and its figures."""
    figures = drawn.of_campaign(archive)
    return {f"results/{drawn.CAMPAIGN}.md": drawn.campaign_page(figures, COMMAND), **figures.files}


def true_campaign_pages(archive: Path) -> dict[str, str]:
    """The page of the runs that coding agents answered, and its figures."""
    figures = drawn.of_runs(drawn.TRUE_CAMPAIGN, archive)
    return {f"results/{drawn.TRUE_CAMPAIGN}.md": drawn.true_campaign_page(figures, COMMAND), **figures.files}


def gallery_pages(archives: Sequence[Path]) -> dict[str, str]:
    """The page of the gallery's searches, and its figures."""
    figures = drawn.of_runs(drawn.GALLERY, *archives, kinds=drawn.OF_GALLERY)
    return {f"results/{drawn.GALLERY}.md": drawn.gallery_page(figures, COMMAND), **figures.files}


def outdated(made: dict[str, str], folder: Path) -> list[str]:
    """The files below a folder that are missing or not what is made now."""
    return [
        name
        for name, text in made.items()
        if not (folder / name).is_file() or not drawn.is_same((folder / name).read_text(), text)
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    arguments.add_argument("--published", type=Path, default=ROOT / "benchmarks" / "published")
    arguments.add_argument("--out", type=Path, default=ROOT / "docs")
    arguments.add_argument("--check", action="store_true")
    given = arguments.parse_args()
    hosts = read_hosts(given.results / "several_gpus")
    found = read_results([given.results])
    made = pages(found, given.published, read_cold(given.results), hosts, verified_winners())
    if (archive := given.results / CAMPAIGN).is_file():
        made |= campaign_pages(archive) | true_campaign_pages(TRUE_CAMPAIGN) | gallery_pages(GALLERY)
    if given.check:
        old = outdated(made, given.out)
        sys.exit(f"not up to date: {', '.join(old)}" if old else 0)
    for path, text in ((given.out / name, text) for name, text in made.items()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
