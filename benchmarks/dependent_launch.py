"""Compositions of recipes with and without programmatic dependent launch, in the same sessions.

Run `python benchmarks/dependent_launch.py OUT.jsonl TASK ... [--precision half] [--device cuda]` on a GPU of compute
capability 9.0 or later. Of each task the fastest known composition that Inductor lowers is judged beside itself with
`torch._inductor.config.triton.enable_pdl`, an option of PyTorch that is off by default: a kernel may start while the
one before it still runs, and waits inside. OUT gets a line for each task, with both times in milliseconds.
"""

import argparse
import asyncio
import json
from contextlib import aclosing
from pathlib import Path

from gallery.verify import Composition, accumulated, seeds

from pike import tasks
from pike.core.settings.config import EngineConfig
from pike.core.task import Task
from pike.core.verdict.evaluation import Effort, EvaluateOptions, EvaluationRequest, Precision
from pike.engine import LocalExecutor
from pike.engine.output import originals
from pike.recipes import compose
from pike.recipes.search.explored import problem_of

LOWERED = {"inductor", "compiled_graph", "compile", "compiled_blocks"}
SWITCH = "import torch._inductor.config\n\ntorch._inductor.config.triton.enable_pdl = True\n"


def main() -> None:
    """Measure the tasks that OUT does not hold."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("tasks", nargs="+")
    arguments.add_argument("--precision", type=Precision, default=Precision.HALF)
    arguments.add_argument("--device", default="cuda")
    given = arguments.parse_args()
    done = {json.loads(line)["task"] for line in given.out.read_text().splitlines()} if given.out.exists() else set()
    options = EvaluateOptions(
        device=given.device, precision=given.precision, timeout_seconds=180, max_timing_seconds=3.0
    )
    known = [(task, one) for task, precision, one in (*accumulated(), *seeds()) if precision == given.precision.value]
    for task in map(tasks.resolve, given.tasks):
        mine = [one for name, one in known if name == task.id and LOWERED & {*one.recipes}]
        if not mine:
            print(f"{task.id}: no composition is known that Inductor lowers")
        elif task.id not in done:
            row = asyncio.run(measured(task, min(mine, key=lambda one: one.ms), options))
            with given.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)


async def measured(task: Task, composition: Composition, options: EvaluateOptions) -> dict[str, object]:
    """What the judge says of a composition as it is and with dependent launch."""
    async with aclosing(LocalExecutor(EngineConfig(judges=1))) as executor:
        facts = await executor.facts(options.device)
        problem = problem_of(originals.load(task).reference, facts, options)
        source = composition.source or compose(task, problem, composition.recipes).source
        written = {"ms": source, "dependent_ms": f"{source}\n\n{SWITCH}"}
        requests = [EvaluationRequest(task, one, options, Effort.FINAL) for one in written.values()]
        found = await executor.evaluate_together(requests)
    row: dict[str, object] = {"task": task.id, "device": facts.name, "recipes": composition.recipes}
    for name, one in zip(written, found, strict=True):
        row |= {name: one.candidate_ms, name.replace("ms", "status"): one.status.value, f"{name}_reason": one.reason}
    return row


if __name__ == "__main__":
    main()
