"""The demo suite optimised with recipes, one `pike optimize --llm none` after the other, and one table at the end.

Run `python benchmarks/optimize_demo_suite.py --out FOLDER [--precision half] [--queries 20] [--max-hours 0.03]`. On
a machine where the project is not installed, `PYTHONPATH=src` is enough. FOLDER gets `results.json` and each task's
`best.py`.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TASKS = ("resnet18", "gpt_block", "mobilenet", "attention")


def optimise(task: str, given: argparse.Namespace, folder: Path) -> dict:
    """One run; its result, or why there is none."""
    command = [sys.executable, "-m", "pike", "optimize", f"demo/{task}", "--llm", "none", "--json", "--yes"]
    command += ["--query-budget", str(given.queries), "--precision", given.precision, "--out", str(folder)]
    command += ["--strategy", given.strategy, "--set", f"engine.max_hours={given.max_hours}"]
    command += ["--set", f"engine.judges={given.judges}", "--set", f"engine.finalists={given.finalists}"]
    started = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    seconds = round(time.monotonic() - started, 1)
    try:
        result = json.loads(done.stdout)
    except json.JSONDecodeError:
        result = {"error": done.stdout[-500:]}
    return {
        "task": task,
        "seconds": seconds,
        "exit": done.returncode,
        "command": " ".join(command[1:]),
        "result": result,
    }


def line(row: dict) -> str:
    """One line of the table."""
    found = row["result"]
    if not found.get("speedup"):
        return f"{row['task']:<10} {found.get('error') or found.get('stopped')}"
    low, high = found["speedup_ci95"]
    recipes = "+".join(found["best"]["recipes"]) or found["best"]["id"]
    return (
        f"{row['task']:<10} {found['reference_ms']:8.3f} ms -> {found['candidate_ms']:8.3f} ms  "
        f"{found['speedup']:5.2f}x ({low:.2f} to {high:.2f})  error {found['max_abs_error']:.2g}  "
        f"{row['seconds']:.0f} s  {recipes}"
    )


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--precision", default="same")
    arguments.add_argument("--strategy", default="pike-b")
    arguments.add_argument("--queries", type=int, default=20)
    arguments.add_argument("--judges", type=int, default=0)
    arguments.add_argument("--finalists", type=int, default=2)
    arguments.add_argument("--max-hours", type=float, default=0.03)
    arguments.add_argument("tasks", nargs="*", default=TASKS)
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for task in given.tasks:
        folder = Path(tempfile.mkdtemp()) / task
        rows.append(optimise(task, given, folder))
        print(line(rows[-1]), flush=True)
        if (folder / "best.py").exists():
            shutil.copy(folder / "best.py", given.out / f"{task}_{given.precision}.py")
        (given.out / f"results_{given.precision}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
