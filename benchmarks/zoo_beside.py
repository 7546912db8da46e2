"""Winners of cold searches again, beside baselines in one session, however long those take to build.

Run `python benchmarks/zoo_beside.py OUT.jsonl ARCHIVE TASK ... [--ways ...] [--seconds 3]`. ARCHIVE is a result of
`zoo_cold.py`: the compositions that its searches ended with are made anew and timed as finalists, beside `--ways`.
OUT gets a line for each model; with `--show` and OUT alone, the table of how much faster each is than the fastest way.
"""

import argparse
import asyncio
import json
import tarfile
from contextlib import aclosing
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from pages.markdown import table

from pike import baselines, tasks
from pike.core.settings.config import EngineConfig
from pike.core.verdict.evaluation import Effort, EvaluateOptions, EvaluationRequest, Precision
from pike.engine import LocalExecutor
from pike.engine.output import originals
from pike.recipes import compose
from pike.recipes.search.explored import problem_of

MINE = "recipes"
WAYS = ("compile", "compile:reduce-overhead", "cuda-graph")
BUILD_SECONDS = 400.0
"""The limit of each, as in `gallery/verify.py`."""


def main() -> None:
    """Measure, or show what was measured."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("archive", type=Path, nargs="?")
    arguments.add_argument("tasks", nargs="*")
    arguments.add_argument("--ways", nargs="*", default=list(WAYS))
    arguments.add_argument("--device", default="cuda")
    arguments.add_argument("--seconds", type=float, default=3.0)
    arguments.add_argument("--precision", default="half")
    arguments.add_argument("--show", action="store_true")
    given = arguments.parse_args()
    if given.show:
        print(shown([json.loads(line) for line in given.out.read_text().splitlines()]))
        return
    found = winners(given.archive)
    options = EvaluateOptions(
        device=given.device,
        precision=Precision(given.precision),
        max_timing_seconds=given.seconds,
        timeout_seconds=BUILD_SECONDS,
    )
    for name in given.tasks:
        recipes = found.get(name)
        missing = {"task": name, "missing": "its search found nothing faster"}
        row = asyncio.run(measured(name, recipes, options, given.ways)) if recipes else missing
        with given.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


def winners(archive: Path) -> dict[str, list[str]]:
    """The recipes that each search in an archive ended with."""
    with tarfile.open(archive) as packed:
        files = [packed.extractfile(one) for one in packed.getmembers() if one.name.endswith("result.json")]
        results = [json.load(file) for file in files if file]
    return {result["task"]: result["best"]["recipes"] for result in results if result["improved"]}


async def measured(name: str, recipes: list[str], options: EvaluateOptions, ways: list[str]) -> dict[str, Any]:
    """The verdicts on a composition and on every way, by the name of each."""
    task = tasks.resolve(name)
    async with aclosing(LocalExecutor(EngineConfig(judges=1))) as executor:
        facts = await executor.facts(options.device)
        made = compose(task, problem_of(originals.load(task).reference, facts, options), tuple(recipes))
        if not made.source:
            return {"task": name, "recipes": recipes, "missing": made.failure}
        known = {one.name: one for one in baselines.for_device(facts.is_cuda)}
        sources = {MINE: made.source}
        sources |= {way: baselines.source(known[way], task, options.precision) for way in ways}
        caches = {name: "" if name == MINE else "ways" for name in sources}  # compile ways share what they compile
        requests = []
        for way, source in sources.items():
            effort = Effort.FINAL if way == MINE else Effort.BESIDE
            requests.append(EvaluationRequest(task, source, options, effort, caches=caches[way]))
        verdicts = await executor.evaluate_together(requests)
    keys = ("status", "reason", "candidate_ms", "reference_ms", "speedup", "speedup_ci95")
    found = {key: {each: one.flat()[each] for each in keys} for key, one in zip(sources, verdicts, strict=True)}
    return {
        "task": name,
        "device": facts.name,
        "precision": options.precision.value,
        "recipes": recipes,
        "verdicts": found,
    }


def shown(rows: list[dict[str, Any]]) -> str:
    """Each model, and the geomean of the fastest way's time over that of the recipes."""
    lines, ratios = [], []
    for row in sorted(rows, key=lambda row: row["task"]):
        valid = {name: one for name, one in row.get("verdicts", {}).items() if one["candidate_ms"]}
        mine = valid.pop(MINE, None)
        if not mine or not valid:
            lines.append([row["task"], "", "", row.get("missing", "not measured")])
            continue
        fastest = min(valid, key=lambda name: valid[name]["candidate_ms"])
        ratios.append(valid[fastest]["candidate_ms"] / mine["candidate_ms"])
        theirs = f"{fastest} {valid[fastest]['speedup']:.2f}x"
        lines.append([row["task"], theirs, f"{mine['speedup']:.2f}x", f"{ratios[-1]:.3f}"])
    found = f"geomean of {len(ratios)}: {geometric_mean(ratios):.3f}" if ratios else "none measured"
    return table(["model", "fastest way", "recipes", "ratio"], lines) + f"\n\n{found}"


if __name__ == "__main__":
    main()
