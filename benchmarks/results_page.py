"""Generates docs/results/ and its chart from committed results files and published figures.

Run `python benchmarks/results_page.py` after files under benchmarks/results have changed. `--check`
only says whether the pages are up to date (exit code 1 where they are not). A script and not a
command of `pike`: the pages belong to this repository, and so do the published figures on them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pages.chart import chart
from pages.cold import NO_SEARCHES, ColdSearches, read_cold
from pages.index_page import index_page, published_page
from pages.published import read_published
from pages.suite_page import Context, page_name, suite_page

from pike.core.comparison.results import Result, digest
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


def pages(results: Sequence[Result], published: Path, cold: ColdSearches = NO_SEARCHES) -> dict[str, str]:
    """Every generated file by its path below docs."""
    members = {
        f"{suite}/{path.stem}": digest(path.read_text())
        for suite in SUITES
        for path in (TASKS / suite).glob("[0-9]*_*.py")
    }
    known = read_published(published, SUITES)
    found = tables(results, members, BASELINES)
    context = Context(known, COMMAND, members, cold)
    made = {
        "results/index.md": index_page(found, context),
        "results/published.md": published_page(known, COMMAND),
    }
    grouped: dict[str, list[ResultsTable]] = {}
    for one in found:
        grouped.setdefault(page_name(one.suite, one.device), []).append(one)
    for name, group in grouped.items():
        made[f"results/{name}"] = suite_page(group, context)
    if f"{CHARTED}.md" in grouped:
        made[f"assets/{CHARTED}.svg"] = chart(grouped[f"{CHARTED}.md"])
    return made


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    arguments.add_argument("--published", type=Path, default=ROOT / "benchmarks" / "published")
    arguments.add_argument("--out", type=Path, default=ROOT / "docs")
    arguments.add_argument("--check", action="store_true")
    given = arguments.parse_args()
    found = pages(read_results([given.results]), given.published, read_cold(given.results))
    made = {given.out / name: text for name, text in found.items()}
    if given.check:
        old = [str(path) for path, text in made.items() if not path.exists() or path.read_text() != text]
        sys.exit(f"not up to date: {', '.join(old)}" if old else 0)
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
