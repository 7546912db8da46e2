"""Verdicts per hour on several GPUs of one host: a page from what `benchmarks/several_gpus.py` measured.

Knows ratios, words and curves. Does not know how anything was measured.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from pages.curve import Curve, drawn
from pages.markdown import GENERATED, table

PAGE = "several-gpus"
SHORT_MS = 0.2
"""Shorter calls are left out where times are compared."""
_STEPS = 300
_ABOUT = """Each GPU has the same work: 15 tasks of Level 3-pike at `half`, cold. Recipes explore a task, then
two compositions and three quick baselines are judged in turn. Runs of one GPU go on side by side,
each with its share of the host's processors, and the ratios compare with their mean. In each run of
several GPUs one judge was killed on the way, and no verdict was lost. The window ends before the
work does."""
_COLUMNS = """*Judges at work* is their share of the whole time; the rest is the start, the exploring and waiting
for it. *GPU timed* is the share of the time in which a GPU is held for a timing. *Times within 1 %*
compares medians of the same call, of originals and candidates above {short} ms, with the first run of
one GPU: two GPUs with a run each differ as much as one GPU and several
([experiment](../experiments/2026-11-26-four-gpus.md))."""
_HEAD = ["host", "run", "GPUs", "judges", "verdicts", "an hour", "ratio", "without start and tail"]
_HEAD += ["judges at work", "GPU timed", "times within 1 %", "median ratio"]


@dataclass(frozen=True)
class Host:
    """What was measured on one host, the runs of one GPU first.

    Attributes:
        runs: each run's name and what it wrote.
    """

    name: str
    runs: tuple[tuple[str, dict[str, Any]], ...]

    @property
    def single(self) -> list[dict[str, Any]]:
        """The runs of one GPU."""
        return [run for _, run in self.runs if run["gpus"] == 1]


def read_hosts(folder: Path) -> list[Host]:
    """Each folder below this one is a host."""
    hosts = []
    for place in sorted(path for path in folder.glob("*") if path.is_dir()):
        runs = [
            (path.name.partition(".")[0], json.loads(gzip.decompress(path.read_bytes()))) for path in place.iterdir()
        ]
        hosts.append(Host(place.name, tuple(sorted(runs, key=lambda one: (one[1]["gpus"], one[0])))))
    return hosts


def several_gpus_pages(hosts: Sequence[Host], command: str) -> dict[str, str]:
    """The page and its figures, by their paths below docs."""
    parts = ["# Several GPUs of one host", GENERATED.format(command=command), _ABOUT]
    parts += [table(_HEAD, [row for host in hosts for row in _rows(host)]), _COLUMNS.format(short=SHORT_MS)]
    made = {}
    for host in hosts:
        most = max((run for _, run in host.runs if run["executor"] == "local"), key=lambda run: run["gpus"])
        name = f"assets/results/{PAGE}-{host.name}.svg"
        title = f"Share of the judges that are at work: {most['gpus']} GPUs in one run (thick), one GPU each (thin)"
        curves = [*(Curve(_occupancy(run)) for run in host.single), Curve(_occupancy(most), strong=True)]
        made[name] = drawn(title, f"{most['machine']}, {most['cpus']} CPUs, {most['judges']} judges", curves)
        parts.append(f"![{title}](../{name})")
    return {f"results/{PAGE}.md": "\n\n".join(parts) + "\n"} | made


def in_words(hosts: Sequence[Host]) -> str:
    """One sentence for the first page."""
    several = [(_ratio(host, run), run) for host in hosts for _, run in host.runs if run["gpus"] > 1]
    ratios = ", ".join(f"{run['gpus']} GPUs {ratio:.2f}× ({run['executor']})" for ratio, run in several)
    return f"[Several GPUs of one host]({PAGE}.md), in verdicts an hour against one of them: {ratios}."


def _rows(host: Host) -> list[list[str]]:
    rows = []
    for name, run in host.runs:
        judged = [row for row in run["rows"] if row["way"] != "explore"]
        timed = sum(seconds for row in judged for stage, seconds in row.get("stages", ()) if stage == "time")
        middles = run["middle_per_hour"] / mean(one["middle_per_hour"] for one in host.single)
        row = [f"{run['machine']}, {host.name}", name, str(run["gpus"]), str(run["judges"]), str(run["verdicts"])]
        row += [
            f"{run['verdicts_per_hour']:,}",
            f"{_ratio(host, run):.2f}",
            f"{middles:.2f}",
            f"{run['busy_share']:.0%}",
        ]
        row += [f"{timed / run['seconds'] / run['gpus']:.0%}" if timed else "–", *_same(host.single[0], run)]
        rows.append(row)
    return rows


def _ratio(host: Host, run: dict[str, Any]) -> float:
    return float(run["verdicts_per_hour"] / mean(one["verdicts_per_hour"] for one in host.single))


def _same(first: dict[str, Any], run: dict[str, Any]) -> tuple[str, str]:
    """How many medians agree with the first run's within 1 %, and the median of their ratios."""
    if run is first:
        return "", ""
    base, times = medians(first), medians(run)
    ratios = [times[key] / value for key, value in base.items() if value > SHORT_MS and key in times]
    return f"{sum(abs(one - 1) <= 0.01 for one in ratios)} of {len(ratios)}", f"{median(ratios):.3f}"


def medians(found: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Milliseconds by task and way, those of originals with the way `original`."""
    times: dict[tuple[str, str], list[float]] = {}
    for row in found["rows"]:
        if row.get("status") == "valid":
            times.setdefault((row["task"], row["way"]), []).append(row["candidate_ms"])
            times.setdefault((row["task"], "original"), []).append(row["reference_ms"])
    return {key: median(values) for key, values in times.items()}


def _occupancy(run: dict[str, Any]) -> list[tuple[float, float]]:
    judged = [row for row in run["rows"] if row["way"] != "explore"]
    times = [run["seconds"] * step / _STEPS for step in range(_STEPS + 1)]
    return [(at, sum(row["began"] <= at < row["ended"] for row in judged) / run["judges"]) for at in times]
