"""Generates docs/results.md from committed results files and published figures.

Run `PYTHONPATH=src python benchmarks/results_page.py` after files under benchmarks/results have changed; `--check` only
says whether the page is up to date (exit code 1 where it is not). A script and not a verb of `pike`: the page is a
document of this repository, and so are the published figures that stand on it. A user's own results are shown by `pike
baseline`. Only standard library needed.
"""

import argparse
import sys
from pathlib import Path

from pike.core.results import digest
from pike.report.published import read_published
from pike.report.results_page import results_page
from pike.store import read_results

ROOT = Path(__file__).resolve().parent.parent
SUITES = ("level3-pike", "level5")
TASKS = ROOT / "src" / "pike" / "tasks" / "suites"
OPPONENTS = ("compile", "compile:reduce-overhead", "compile:max-autotune", "cuda-graph", "tensorrt")
"""What a whole suite is to be compared with, measured or not (names of `pike.baselines`, which needs torch)."""
COMMAND = "python benchmarks/results_page.py"


def page(results: Path, published: Path) -> str:
    """The page of everything in these folders."""
    members = {
        f"{suite}/{path.stem}": digest(path.read_text())
        for suite in SUITES
        for path in (TASKS / suite).glob("[0-9]*_*.py")
    }
    return results_page(read_results([results]), read_published(published, SUITES), COMMAND, members, OPPONENTS)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    arguments.add_argument("--published", type=Path, default=ROOT / "benchmarks" / "published")
    arguments.add_argument("--out", type=Path, default=ROOT / "docs" / "results.md")
    arguments.add_argument("--check", action="store_true")
    given = arguments.parse_args()
    text = page(given.results, given.published)
    if given.check:
        sys.exit(0 if given.out.exists() and given.out.read_text() == text else f"{given.out} is not up to date")
    given.out.write_text(text)
    print(given.out)


if __name__ == "__main__":
    main()
