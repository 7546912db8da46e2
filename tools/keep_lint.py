"""Writes what lint found about a shipped suite beside its tasks, so that every user sees it.

Takes the verdicts that `pike tasks SUITE --lint` (and `SUITE:small --lint`) kept on this machine,
or that were shipped before, those on the tasks' present texts only. Knows nothing of how they were
found.

Usage: python tools/keep_lint.py SUITE...
"""

from __future__ import annotations

import json
import sys

from pike import tasks
from pike.core.codec import encode
from pike.tasks import lint_verdicts
from pike.tasks.lint_verdicts import shipped


def main(suites: list[str]) -> None:
    """Write the file of each suite and say how many of its tasks have a verdict."""
    for suite in suites:
        found: dict[str, lint_verdicts.LintVerdict] = {}
        members = (*tasks.in_suite(suite), *tasks.in_suite(f"{suite}:small"))
        for task in members:
            for key, precision in zip(lint_verdicts.keys_of(task), lint_verdicts.PRECISIONS, strict=True):
                if (verdict := lint_verdicts.known(task, precision)) is not None:
                    found[key] = verdict
        path = shipped.FOLDER / suite / lint_verdicts.SHIPPED
        path.write_text(json.dumps({key: encode(verdict) for key, verdict in found.items()}, indent=1) + "\n")
        linted = {verdict.task for verdict in found.values()}
        print(f"{path}: {len(linted)} of {len(members)} tasks, {len(found)} verdicts")


if __name__ == "__main__":
    main(sys.argv[1:])
