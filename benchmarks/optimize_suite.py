"""A suite optimised task by task, `pike optimize` each, resumable, with the table and the geomeans at the end.

Run `python benchmarks/optimize_suite.py SUITE --out FILE [--minutes 4] [--precision half] [--only 9 13]`, for example
with `level3-pike:small` on a CPU. FILE holds one JSON line for each task and is written after each; a task that is in
it is not run again. Beside it, `FILE.best/` gets each task's `best.py`, where the original did not stay. On a machine
where the project is not installed, `PYTHONPATH=src` is enough.
"""

import argparse
import json
import math
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def tasks_of(suite: str) -> list[str]:
    """The ids of a suite's tasks."""
    command = [sys.executable, "-m", "pike", "tasks", suite, "--json"]
    listed = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return [task["id"] for task in listed["tasks"]]


def optimise(task: str, given: argparse.Namespace, folder: Path) -> dict:
    """One run; its result, or why there is none."""
    command = [sys.executable, "-m", "pike", "optimize", task, "--strategy", given.strategy, "--json", "--yes"]
    command += ["--precision", given.precision, "--max-minutes", str(given.minutes), "--out", str(folder)]
    command += ["--set", f"engine.judges={given.judges}", "--set", f"engine.finalists={given.finalists}"]
    command += [part for setting in given.set for part in ("--set", setting)]
    started = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    seconds = round(time.monotonic() - started, 1)
    try:
        result = json.loads(done.stdout.replace(str(folder), "FOLDER"))
    except json.JSONDecodeError:
        result = {"error": done.stdout[-500:]}
    words = " ".join(["pike", *command[3:]]).replace(str(folder), "FOLDER")
    machine = f"{platform.machine()}, {platform.processor() or platform.system()}"
    return {
        "task": task,
        "seconds": seconds,
        "exit": done.returncode,
        "command": words,
        "machine": machine,
        "result": result,
    }


def line(row: dict) -> str:
    """One line of the table."""
    found = row["result"]
    if not found.get("speedup"):
        return f"{row['task']:<40} {str(found.get('error') or found.get('stopped'))[:100]}"
    recipes = "+".join(found["best"]["recipes"]) if found["improved"] else "the original stays"
    tried = len(found["trail"])
    return (
        f"{row['task']:<40} {found['reference_ms']:9.3f} ms -> {found['candidate_ms']:9.3f} ms "
        f"{found['speedup']:6.2f}x  {tried:3d} tried in {row['seconds']:4.0f} s  {recipes}"
    )


def geomeans(rows: list[dict]) -> str:
    """The clamped geomean over all tasks, and the one over the best valid candidates as they were measured."""
    kept = [row["result"].get("speedup") or 1.0 for row in rows]
    verdicts = [row["result"].get("evaluation") or {} for row in rows]
    measured = [verdict["speedup"] for verdict in verdicts if verdict.get("speedup")]
    clamped, raw = (math.exp(sum(map(math.log, each)) / max(1, len(each))) for each in (kept, measured))
    return (
        f"geomean over {len(rows)} tasks: {clamped:.2f}x; of {len(measured)} valid candidates as measured: {raw:.2f}x"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("suite")
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--only", nargs="*", default=(), help="numbers or names of tasks; all without it")
    arguments.add_argument("--precision", default="same")
    arguments.add_argument("--strategy", default="recipes")
    arguments.add_argument("--judges", type=int, default=0)
    arguments.add_argument("--finalists", type=int, default=2)
    arguments.add_argument("--minutes", type=float, default=4.0)
    arguments.add_argument("--set", action="append", default=[], help="a setting for pike optimize")
    given = arguments.parse_args()
    best = given.out.with_name(given.out.name + ".best")
    best.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(text) for text in given.out.read_text().splitlines()] if given.out.exists() else []
    known = {row["task"] for row in rows}
    for task in tasks_of(given.suite):
        name = task.rpartition("/")[2]
        if task in known or (given.only and not {name, name.partition("_")[0]}.intersection(given.only)):
            continue
        folder = Path(tempfile.mkdtemp()) / "run"
        rows.append(optimise(task, given, folder))
        print(line(rows[-1]), flush=True)
        if (folder / "best.py").exists():
            shutil.copy(folder / "best.py", best / f"{name.replace(':', '_')}.py")
        with given.out.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    print("\n".join(map(line, rows)), geomeans(rows), sep="\n")


if __name__ == "__main__":
    main()
