"""The judge's verdicts on the solutions that PIKE's authors published, for `docs/experiments/*audit*.md`.

Run `PYTHONPATH=src python3 benchmarks/audit_published.py CHECKOUT --out FOLDER [--only SET:TASK,TASK ...]` on a machine
with a GPU; CHECKOUT is the public repository `pike-project/pike`. What else is given goes to `pike suite`, for example
`--devices all --workers 14 --minutes 8` (for each precision). A solution is judged at `half` if its text names a
16-bit type, else at `tf32`, without lint, because some tasks test nothing. The same command goes on where it stopped.
FOLDER then holds one file of results for each precision, without logs and without paths.
"""

import argparse
import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SUITE = "level3-metr-old"
SETS = {
    "oe10": "openevolve_pop_10_no_agents_300",
    "oe25": "openevolve_pop_25_no_agents_300",
    "oe25agents": "openevolve_pop_25_agents_300",
    "oe25prev": "openevolve_pop_25_no_agents_300_prev_prompts",
    "orig": "orig",
    "prev": "prev_agents_300",
}
SIXTEEN_BITS = re.compile(r"half|float16|bfloat16|bf16|fp16", re.IGNORECASE)


def main() -> None:
    """Lay out what is asked for, judge it, write the results."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("checkout", type=Path)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--only", nargs="*", default=[*SETS], help="SET, or SET:TASK,TASK; all six sets by default")
    arguments.add_argument("--tolerance", default="strict")
    given, more = arguments.parse_known_args()
    for precision, found in sorted(_by_precision(given.checkout, given.only).items()):
        folder = given.out / "work" / precision
        _lay_out(given.checkout, folder, found)
        _judge(folder, precision, given.tolerance, more)
        _keep(folder, given.out / f"{given.tolerance}-{precision}-{SUITE}.jsonl.gz")


def _by_precision(checkout: Path, only: list[str]) -> dict[str, list[tuple[str, Path]]]:
    """The solutions asked for: a precision's set names and files."""
    found: dict[str, list[tuple[str, Path]]] = {}
    for words in only:
        name, _, tasks = words.partition(":")
        folder = checkout / "best_agent_solutions/h100/level3-metr" / SETS[name] / "best_solutions"
        for file in [folder / f"task_{task}.py" for task in tasks.split(",")] if tasks else sorted(folder.glob("*.py")):
            precision = "half" if SIXTEEN_BITS.search(file.read_text()) else "tf32"
            found.setdefault(precision, []).append((name, file))
    return found


def _lay_out(checkout: Path, folder: Path, found: list[tuple[str, Path]]) -> None:
    """Copy the solutions, a folder for each set, and the tasks that they are for."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / SUITE).mkdir(parents=True)
    for name, file in found:
        (folder / name).mkdir(exist_ok=True)
        shutil.copy(file, folder / name)
        for task in (checkout / "KernelBench" / SUITE).glob(f"{file.stem.removeprefix('task_')}_*.py"):
            shutil.copy(task, folder / SUITE)
    sets = sorted({name for name, _ in found})
    rows = ", ".join(f'{{name = "{name}", base = "published:{folder.resolve() / name}"}}' for name in sets)
    (folder / "sets.toml").write_text(f"[campaign]\ncontenders = [{rows}]\n")


def _judge(folder: Path, precision: str, tolerance: str, more: list[str]) -> None:
    settings = ("evaluate.lint=false", "evaluate.max_timing_seconds=1", "evaluate.threads=2")
    words = ["suite", str(folder.resolve() / SUITE), "--config", str(folder / "sets.toml"), "--precision", precision]
    words += ["--tolerance", tolerance, "--search", "--timeout", "200", "--quiet", *more]
    words += ["--out", str(folder.parents[1] / "suite" / f"{tolerance}-{precision}")]
    words += [word for setting in settings for word in ("--set", setting)]
    subprocess.run([sys.executable, "-m", "pike", *words], check=False)


def _keep(folder: Path, target: Path) -> None:
    """Write the results, without logs, with file names in place of paths, and no rows of tasks that a set lacks."""
    suite = folder.parents[1] / "suite" / target.name.removesuffix(f"-{SUITE}.jsonl.gz")
    with gzip.open(target, "wt") as out:
        for row in _rows(suite):
            if "has no solution" in (row["missing"] or ""):
                continue
            if row["evaluation"]:
                row["evaluation"]["log"] = ""
            text = re.sub(r"(/[\w.+-]+)+/", "", json.dumps(row))
            out.write(text + "\n")


def _rows(suite: Path) -> Iterator[dict]:
    for file in sorted(suite.glob("results*.jsonl")):
        yield from (json.loads(line) for line in file.read_text().splitlines() if line)


if __name__ == "__main__":
    main()
