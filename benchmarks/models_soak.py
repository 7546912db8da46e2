"""Models that nobody had in mind, each through `pike.optimize` without a language model, in a process of its own.

Run `python benchmarks/models_soak.py --out FILE.jsonl [--models 200] [--minutes 1] [--seconds N] [--kind chance]`.
Half of the models are built by chance from a number (`models_by_chance`); the others are small models of the zoo with
other batch sizes and lengths; `--kind` takes one half, `--only NAME` one model. Each line of the file says how one
model ended: `verdict` (a result, also that nothing was faster), `sentence` (PIKE refused it in one sentence),
`traceback`, `unclear` (neither, or more than one sentence) or `late`. The same command goes on where it stopped; after
`--seconds` no further model begins. Ends with code 1 if a model ended in another way than the first two.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import models_by_chance

import pike
from pike import tasks
from pike.core.errors import PikeError

GOOD = ("verdict", "sentence")
MARK = "soak: "
"""What begins the line with which a process says how its model ended."""
MUTATED = {"BATCH": (1, 3, 5, 7), "TOKENS": (5, 13, 31), "STEPS": (3, 11, 29), "NODES": (7, 33), "EDGES": (40, 111)}
"""Constants of the zoo's files, and what they become."""
SETTINGS = ["evaluate.max_timing_seconds=1.0", "engine.finalists=1", "engine.judges=1"]


def main() -> int:
    """Run, or run one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--kind", default="", choices=("", "chance", "zoo"))
    parser.add_argument("--only", default="", help="one model by name, in this process")
    args = parser.parse_args()
    if args.only:
        print(MARK + json.dumps(optimised(args.only, args.minutes)), flush=True)
        return 0
    if args.out is None:
        parser.error("--out is needed")
    wanted = [name for name in names(args.models) if name.startswith(args.kind)]
    return soak(args.out, wanted, args.minutes, time.monotonic() + args.seconds)


def names(count: int) -> list[str]:
    """The models of a soak, in order."""
    ids = [task.id for task in tasks.in_suite("zoo")]
    zoo = [f"zoo:{ids[number % len(ids)]}:{number // len(ids)}" for number in range(count // 2)] if ids else []
    chance = [f"chance:{number}" for number in range(count - len(zoo))]
    return [name for pair in zip(chance, zoo, strict=False) for name in pair] + chance[len(zoo) :]


def soak(out: Path, wanted: list[str], minutes: float, deadline: float) -> int:
    """Run what is left, one model after the other."""
    known = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {row["model"] for row in known}
    for name in wanted:
        if name in done or time.monotonic() > deadline:
            continue
        row = one(name, minutes)
        known.append(row)
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{row['ended']:9} {row['seconds']:6.1f} s  {name}  {row.get('what', '')[:150]}", flush=True)
    ends = Counter(row["ended"] for row in known)
    print(f"{len(known)} models, {len(wanted)} wanted: {dict(ends)}")
    return 0 if set(ends) <= set(GOOD) else 1


def one(name: str, minutes: float) -> dict[str, Any]:
    """One model in a process of its own, with twice its time and five minutes for all else."""
    command = [sys.executable, __file__, "--only", name, "--minutes", str(minutes)]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said, words = process.communicate(timeout=120.0 * minutes + 300.0)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()
        said, words = MARK + json.dumps({"ended": "late"}), ""
    row = {"model": name, "seconds": round(time.monotonic() - began, 1), "minutes": minutes}
    lines = [line for line in said.splitlines() if line.startswith(MARK)]
    if lines:
        return row | json.loads(lines[-1].removeprefix(MARK))
    last = words.strip().splitlines()[-1:] or [f"code {process.returncode}"]
    return row | {
        "ended": "traceback" if "Traceback" in words else "unclear",
        "what": last[0][:500],
        "log": words[-4000:],
    }


def optimised(name: str, minutes: float) -> dict[str, Any]:
    """How a search on one model ended; other errors than PIKE's own escape."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        os.chdir(folder)
        try:
            target, inputs = model_of(name, Path(folder))
            terms = {"strategy": "recipes", "precision": "half", "device": "cpu", "max_minutes": minutes}
            found = pike.optimize(target, inputs, settings=SETTINGS, out="run", **terms).result
        except PikeError as error:
            text = str(error)
            return {
                "ended": "sentence" if is_a_sentence(text) else "unclear",
                "what": f"{type(error).__name__}: {text}",
            }
        kinds = Counter(one.status.value for one in found.recipe_history)
        raised = [f"{who}: {why}" for who, why in found.declined if "cannot look" in why]
        what = {"speedup": found.speedup, "stopped": found.stopped, "verdicts": dict(kinds), "raised": raised}
        why = sorted({why for _, why in found.declined if "cannot be" in why or "could not" in why})
        return {"ended": "verdict" if found.finished else "unclear", "what": json.dumps(what), "no_graph": why}


def is_a_sentence(text: str) -> bool:
    """Whether words are short, one line, and no traceback."""
    return 0 < len(text) < 600 and "\n" not in text.strip() and "Traceback" not in text


def model_of(name: str, folder: Path) -> tuple[Any, Any]:
    """A model by its name, with its inputs where it is no file."""
    kind, what, *more = name.split(":")
    if kind == "chance":
        return models_by_chance.make(int(what))
    source = tasks.resolve(f"{what}:small").source
    chance = random.Random(name)
    for constant, values in MUTATED.items():
        if more != ["0"]:
            source = re.sub(rf"(?m)^{constant} = \d+", f"{constant} = {chance.choice(values)}", source)
    path = folder / "mutated.py"
    path.write_text(source)
    return path, None


if __name__ == "__main__":
    sys.exit(main())
