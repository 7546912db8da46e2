"""What recipes find out about tasks before anything is judged, found out here for a machine whose minutes are dear.

Run `python benchmarks/explore_recipes.py level3-pike level5 --device-of RESULTS.jsonl --out FILE` with the version of
PyTorch that the other machine has; `benchmarks/suite_on_device.py --explored FILE` then writes compositions at once.
The device is that of the first record in RESULTS.jsonl; tasks and precisions that FILE holds already are left out.
"""

import argparse
import json
import multiprocessing
import time
import warnings
from pathlib import Path

import torch

from pike.api.opponents import tasks_named
from pike.core.codec import decode, encode
from pike.core.device import DeviceFacts
from pike.core.evaluation import EvaluateOptions, Precision
from pike.core.results import digest
from pike.core.task import Task
from pike.evaluate.reference import load
from pike.recipes.explored import explore, problem_of
from pike.store import read_results


def explored(task: Task, precisions: list[Precision], facts: DeviceFacts, timeout_seconds: float) -> list[dict]:
    """A record for each precision."""
    found = []
    reference = load(task)
    for precision in precisions:
        began = time.monotonic()
        options = EvaluateOptions(device=facts.device, precision=precision, timeout_seconds=timeout_seconds)
        problem = problem_of(reference, facts, options)
        known = explore(problem)
        nodes = problem.graph.graph.nodes if problem.graph else ()
        found.append(
            {
                "task": task.id,
                "task_digest": digest(task.source),
                "precision": precision.value,
                "device": facts.name,
                "torch": torch.__version__.partition("+")[0],
                "operators": sum(node.op == "call_function" for node in nodes),
                "seconds": round(time.monotonic() - began, 1),
                "explored": known.record,
            }
        )
    return found


def _work(job: tuple[str, list[Precision], DeviceFacts, float]) -> list[dict]:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    task, *rest = job
    return explored(tasks_named([task])[0], *rest)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("targets", nargs="+")
    given.add_argument("--device-of", type=Path, required=True, help="results of the device that is meant")
    given.add_argument("--precision", default="half,tf32,same")
    given.add_argument("--timeout-seconds", type=float, default=240.0, help="the judge's limit there")
    given.add_argument("--processes", type=int, default=2)
    given.add_argument("--out", type=Path, required=True)
    wanted = given.parse_args()
    facts = decode(DeviceFacts, encode(read_results([wanted.device_of])[0].provenance.device))
    lines = wanted.out.read_text().splitlines() if wanted.out.exists() else []
    known = {(one["task"], one["task_digest"], one["precision"]) for one in map(json.loads, lines)}
    jobs = []
    for task in (task for target in wanted.targets for task in tasks_named([target])):
        precisions = [Precision(word) for word in wanted.precision.split(",")]
        left = [one for one in precisions if (task.id, digest(task.source), one.value) not in known]
        jobs += [(task.id, left, facts, wanted.timeout_seconds)] if left else []
    with multiprocessing.get_context("spawn").Pool(wanted.processes, maxtasksperchild=1) as pool:
        for records in pool.imap_unordered(_work, jobs):
            with wanted.out.open("a") as file:
                file.writelines(json.dumps(record) + "\n" for record in records)
            print(records[0]["task"], [record["seconds"] for record in records], flush=True)


if __name__ == "__main__":
    main()
