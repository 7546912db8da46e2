"""A campaign at the size of a paper: tasks x strategies x queries, with an instant evaluator and a scripted model.

Everything but models and judges is real: prompts are rendered, answers are read, every event is journalled and synced,
runs take turns and are read back. Run `python benchmarks/campaign_scale.py [--tasks N] [--presets N] [--queries N]
[--concurrency N] [--folder DIR] [--resume]`; prints one JSON object. The folder decides which disk is measured
(default: the current directory). `--resume` also measures how long the finished campaign takes to be read. Where fewer
strategies exist than are asked for, they take part several times. Needs only `pike` and its extra `llm`.
"""

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from pathlib import Path

from pike import search
from pike.api.campaigns import Shared, campaign
from pike.engine.executors.instant import InstantExecutor

SOURCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * {number}


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""
CODE = "\n".join(f"        x = torch.relu(x) * {line}  # a line of a candidate of some length" for line in range(40))
ANSWER = "A rewrite:\n```python\nimport torch\n# {mark}\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
IDEAS = "\n".join(f"{number}. idea {number}: fuse what can be fused" for number in range(1, 11))
ROLES = ("coa", "efa", "plan", "code", "debug")


def script(folder: Path) -> str:
    """A model with a hundred answers for each role, about 3,000 characters each; the judge decides by their hash."""
    lines = [{"role": "iba", "text": IDEAS}]
    for role in ROLES:
        lines += [
            {"role": role, "text": ANSWER.format(mark=f"{role} {number}") + CODE + "\n        return x\n```\n"}
            for number in range(97)
        ]
    path = folder / "script.json"
    known = [line for line in lines if line["role"] in _known_roles()]
    path.write_text(json.dumps({"model": "scripted", "answer": known}))
    return f"scripted:{path}"


def _known_roles() -> set[str]:
    from pike.llm.scripted.script import Line

    known = set()
    for role in ("iba", *ROLES):
        try:
            Line(role=role)
        except ValueError:
            continue
        known.add(role)
    return known


def configuration(folder: Path, chosen: argparse.Namespace) -> dict[str, object]:
    tasks = []
    for number in range(chosen.tasks):
        path = folder / f"task{number}.py"
        path.write_text(SOURCE.format(number=number))
        tasks.append(str(path))
    names = [preset.name for preset in search.presets() if not preset.own_models and preset.name not in chosen.without]
    presets = [
        {
            "name": names[n % len(names)] + (f" again {n // len(names)}" if n >= len(names) else ""),
            "base": names[n % len(names)],
        }
        for n in range(chosen.presets)
    ]
    return {
        "campaign": {"tasks": tasks, "contenders": presets, "concurrency": chosen.concurrency},
        "llm": {"coa": script(folder)},
        "budget": {"queries": chosen.queries},
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tasks", type=int, default=44)
    arguments.add_argument("--presets", type=int, default=12)
    arguments.add_argument("--queries", type=int, default=300)
    arguments.add_argument("--concurrency", type=int, default=8)
    arguments.add_argument("--folder", type=Path, default=Path())
    arguments.add_argument("--without", nargs="*", default=["agent", "recipes"], help="presets to leave out")
    arguments.add_argument("--resume", action="store_true")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="campaign-scale-", dir=chosen.folder) as scratch:
        folder = Path(scratch)
        config = configuration(folder, chosen)
        began, used = time.perf_counter(), _cpu_seconds()
        done = campaign(config, out=folder / "c", shared=Shared(InstantExecutor()))
        seconds, cpu = time.perf_counter() - began, _cpu_seconds() - used
        found = done.figures
        runs = [cell.run for cell in found.cells if cell.run]
        again = None
        if chosen.resume:
            began = time.perf_counter()
            campaign(resume=folder / "c", shared=Shared(InstantExecutor()))
            again = round(time.perf_counter() - began, 2)
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}"
    result = {
        "benchmark": "campaign_scale",
        "machine": f"{machine}, Python {platform.python_version()}",
        "load_average_at_the_end": os.getloadavg(),
        "tasks": chosen.tasks,
        "presets": [one["base"] for one in config["campaign"]["contenders"]],  # type: ignore[index]
        "queries_each": chosen.queries,
        "runs_finished": sum(run.finished for run in runs),
        "runs": len(found.cells),
        "queries": found.spend.queries,
        "evaluations": sum(run.candidates for run in runs),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "ms_per_query": round(1e3 * seconds / max(1, found.spend.queries), 3),
        "most_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "seconds_to_read_it_finished": again,
    }
    print(json.dumps(result, indent=1))


def _cpu_seconds() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


if __name__ == "__main__":
    main()
