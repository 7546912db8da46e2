"""Every preset in the simulator: at equal queries, over budgets, and `pike-x` part by part.

Run `python benchmarks/simulate_presets.py [presets] [budgets] [ablation] [--processes 2]`; without
a name, all three.
Each writes `simulator_<name>.json` into FOLDER (benchmarks/results) and prints its table in
Markdown. A repeat is a suite of 30 simulated tasks: 34 repeats are 1,020 runs of each preset. All
presets meet the same tasks and seeds, with at most 20 steps in flight. It is a model: ADR 0011.
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pike.core.codec import encode
from pike.core.settings.config import StrategyConfig
from pike.core.step import Role
from pike.search import presets
from pike.simulate import Conditions, Geomean, RunSample, StudyCut, asks_models, fitted, geomean, sample
from pike.simulate.study import TASKS

RESULTS = Path(__file__).parent / "results"
TYPICAL = (
    "pike-b",
    "pike-b:no-efa",
    "best-of-n",
    "metr",
    "stark",
    "pike-x",
)
"""The presets over budgets, without PIKE-O: its database takes 300 microseconds a query."""
IN_FLIGHT = 20
BUDGETS = (10, 30, 100, 300, 1000, 3000)
BANDIT = {Role.OPTIMISE: ("strong", "cheap"), Role.FIX: ("cheap", "strong")}
BANDIT_FOR_REPAIRS = {Role.FIX: ("cheap", "strong")}


@dataclass(frozen=True)
class Entry:
    """One row: a name, its conditions, and repeats of the suite."""

    name: str
    conditions: Conditions
    repeats: int


def plain(preset: str, queries: int = 300, options: dict[str, Any] | None = None, **more: Any) -> Conditions:
    return Conditions(StrategyConfig(preset, options or {}), queries, IN_FLIGHT, **more)


def names() -> list[str]:
    return [preset.name for preset in presets() if asks_models(preset.name)]


def cuts(queries: int) -> tuple[StudyCut, ...]:
    return (StudyCut(queries=queries), StudyCut(queries=50), StudyCut(usd=25.0))


def piece(conditions: Conditions, repeat: int, tasks: int) -> tuple[list[RunSample], float]:
    began = time.process_time()
    found = sample(conditions, range(repeat, repeat + 1), cuts(conditions.queries), fitted(), tasks)
    return found, time.process_time() - began


def measure(entries: list[Entry], processes: int, tasks: int) -> Iterator[dict[str, Any]]:
    """The figures of every entry, in order."""
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        work: list[list[Future[tuple[list[RunSample], float]]]] = [
            [pool.submit(piece, entry.conditions, repeat, tasks) for repeat in range(entry.repeats)]
            for entry in entries
        ]
        for entry, futures in zip(entries, work, strict=True):
            done = [future.result() for future in futures]
            found = [each for samples, _ in done for each in samples]
            failing = sum(each.failing for each in found)
            seconds = sum(taken for _, taken in done)
            yield {
                "name": entry.name,
                "queries": entry.conditions.queries,
                "runs": len(found),
                "all": geomean(found, 0),
                "at 50 queries": geomean(found, 1),
                "at 25 dollars": geomean(found, 2),
                "usd": statistics.fmean(each.usd for each in found),
                "repaired": sum(each.repaired for each in found) / failing if failing else None,
                "cpu_seconds": round(seconds, 2),
                "microseconds_a_query": round(1e6 * seconds / len(found) / max(1, entry.conditions.queries), 1),
            }


def cell(value: Geomean) -> str:
    return f"{value.mean:.2f} ({value.ci95[0]:.2f}–{value.ci95[1]:.2f})"


def table_of_presets(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| preset | 300 queries (95 % of the mean) | single runs | at 50 queries | at $25 | cost of a run | repaired |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = row["all"].single95
        repaired = "–" if row["repaired"] is None else f"{row['repaired']:.0%}"
        lines.append(
            f"| `{row['name']}` | {cell(row['all'])} | {low:.2f}–{high:.2f} | {cell(row['at 50 queries'])} |"
            f" {row['at 25 dollars'].mean:.2f} | ${row['usd']:.0f} | {repaired} |"
        )
    return "\n".join(lines)


def table_of_budgets(rows: list[dict[str, Any]]) -> str:
    lines = ["| preset | " + " | ".join(f"{budget:,}" for budget in BUDGETS) + " |", "|---" * (len(BUDGETS) + 1) + "|"]
    for name in dict.fromkeys(row["name"] for row in rows):
        found = {row["queries"]: row["all"] for row in rows if row["name"] == name}
        lines.append(f"| `{name}` | " + " | ".join(cell(found[budget]) for budget in BUDGETS) + " |")
    return "\n".join(lines)


def table_of_parts(rows: list[dict[str, Any]]) -> str:
    lines = ["| what | 50 queries | 300 queries | at $25 | cost of a run of 300 |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(row["name"] for row in rows):
        small, large = (next(row for row in rows if row["name"] == name and row["queries"] == n) for n in (50, 300))
        figures = (cell(small["all"]), cell(large["all"]), f"{large['at 25 dollars'].mean:.2f}", f"${large['usd']:.0f}")
        lines.append(f"| {name} | " + " | ".join(figures) + " |")
    return "\n".join(lines)


def of_presets(repeats: int) -> list[Entry]:
    return [Entry(name, plain(name), repeats) for name in names()]


def of_budgets(repeats: int) -> list[Entry]:
    """Every budget for the typical presets; `pike-x` has no recipes here, to be comparable."""
    return [
        Entry(
            name,
            plain(name, budget, {"recipe_seeds": False} if name == "pike-x" else {}),
            max(3, min(repeats, round(repeats * math.sqrt(100 / budget)))),
        )
        for name in TYPICAL
        if name in names()
        for budget in BUDGETS
    ]


def of_parts(repeats: int) -> list[Entry]:
    """`pike-x` with one part replaced at a time, beside the others under the same conditions."""
    rivals = [name for name in ("pike-b", "pike-b:elitist", "pike-o:mut,npar,1isl,eo,sl") if name in names()]
    rows: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = []
    for seeded in (False, True):
        said = "with recipes" if seeded else "without"
        more: dict[str, Any] = {"recipe_seeds": seeded}
        rows += [(f"`{name}`, {said}", name, {}, more) for name in rivals]
        rows += [
            (f"`pike-x`, one model, {said}", "pike-x", more, {}),
            (f"`pike-x`, two models for repairs, {said}", "pike-x", more, {"models": BANDIT_FOR_REPAIRS}),
            (f"`pike-x`, two models for everything, {said}", "pike-x", more, {"models": BANDIT}),
        ]
    for part, change in PARTS.items():
        rows.append((f"`pike-x` {part}, one model, without", "pike-x", {**change, "recipe_seeds": False}, {}))
    return [
        Entry(name, plain(preset, queries, changed, **more), repeats)
        for name, preset, changed, more in rows
        for queries in (50, 300)
    ]


PARTS: dict[str, dict[str, Any]] = {
    "repairing at once": {"repair": {"kind": "immediate", "order": "fair"}},
    "without scopes": {"scope": "any"},
    "from the best 4": {"selection": {"k": 4}},
    "with repairs in order of samples": {"repair": {"order": "sample"}},
    "with 20 in flight": {"pacing": {"in_flight": 20}},
    "that forgets as `pike-b` does": {"pacing": "rounds", "library": {"memory": "round"}},
    "without brainstorming": {"ideas": False},
    "with repeats and any branches": {"library": {"duplicates": "keep"}, "selection": {"distinct": 0}},
}
"""Parts of `pike-x`, and the replacement of each."""

STUDIES = {
    "presets": (of_presets, table_of_presets),
    "budgets": (of_budgets, table_of_budgets),
    "ablation": (of_parts, table_of_parts),
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("studies", nargs="*", choices=[*STUDIES, []], metavar="STUDY")
    arguments.add_argument("--repeats", type=int, default=34)
    arguments.add_argument("--tasks", type=int, default=TASKS)
    arguments.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments.add_argument("--out", type=Path, default=RESULTS)
    chosen = arguments.parse_args()
    for name in chosen.studies or STUDIES:
        entries, table = STUDIES[name]
        began = time.monotonic()
        rows = []
        for row in measure(entries(chosen.repeats), chosen.processes, chosen.tasks):
            rows.append(row)
            sys.stderr.write(f"{row['name']} {row['queries']}: {cell(row['all'])}, {row['cpu_seconds']} s\n")
        dials = f"--repeats {chosen.repeats} --tasks {chosen.tasks}"
        report = {
            "benchmark": f"simulate_presets {name}",
            "command": f"python benchmarks/simulate_presets.py {name} {dials}",
            "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
            "seconds": round(time.monotonic() - began, 1),
            "processes": chosen.processes,
            "rows": encode(rows),
        }
        (chosen.out / f"simulator_{name}.json").write_text(json.dumps(report, indent=1) + "\n")
        print(f"\n{table(rows)}\n\n{report['seconds']:.0f} s on {chosen.processes} processes", flush=True)


if __name__ == "__main__":
    main()
