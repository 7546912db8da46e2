"""How much memory a judge's own process takes at most in each stage of an evaluation, without the two children.

Run `PYTHONPATH=src python3 benchmarks/judge_memory.py level3-pike/6 [--set IMAGE=112 BATCH=4] [--precision half]`. The
candidate is the reference again, judged as a finalist. On a GPU it is what torch has allocated there, on a CPU how far
the process grew beyond what it held before. `outputs` says how many times the bytes of one call's outputs that is.
"""

import argparse
import json
import re
import sys
import threading
import time
from dataclasses import replace

import torch

from pike import tasks
from pike.core.errors import UserError
from pike.core.task import Task
from pike.core.verdict.evaluation import Effort, EvaluateOptions, EvaluationRequest, Precision
from pike.judge import device as devices
from pike.judge.judge import Judge
from pike.judge.lint import look_for_trivial
from pike.judge.prepared_task import PreparedTask
from pike.judge.timing.device_lock import DeviceLock

_PAUSE_SECONDS = 0.001


def held_bytes(device: torch.device) -> int:
    """What this process holds now."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


class Watch(threading.Thread):
    """Looks again and again how much is held, and keeps the most of each stage."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(daemon=True)
        self.stage, self.most, self.is_over = "prepare", dict[str, int](), False
        self._device, self._before = device, held_bytes(device)

    def run(self) -> None:
        while not self.is_over:
            held = held_bytes(self._device) - self._before
            self.most[self.stage] = max(self.most.get(self.stage, 0), held)
            time.sleep(_PAUSE_SECONDS)


def changed(task: Task, constants: list[str]) -> Task:
    """The task with other values for constants of its module, each `NAME=VALUE`.

    Raises:
        UserError: there is no such constant.
    """
    source = task.source
    for name, _, value in (one.partition("=") for one in constants):
        source, count = re.subn(rf"^{re.escape(name)} = .*$", f"{name} = {value}", source, flags=re.MULTILINE)
        if not (count and value):
            raise UserError(f"'{task.id}' has no constant {name} to be set; give NAME=VALUE with a name of its file")
    return replace(task, source=source)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("task")
    arguments.add_argument("--set", nargs="*", default=[])
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--precision", default="same")
    given = arguments.parse_args()
    task, device = changed(tasks.resolve(given.task), given.set), devices.resolve(given.device)
    options = EvaluateOptions(device=str(device), precision=Precision(given.precision), max_timing_seconds=1.5)
    source = task.source.replace("class Model(", "class ModelNew(")
    request = EvaluationRequest(task, source, options, effort=Effort.FINAL)
    watch, outputs = Watch(device), list[int]()

    def prepare(request: EvaluationRequest, device: torch.device, lock: DeviceLock) -> PreparedTask:
        prepared = PreparedTask(request.task, device, request.options, lock)
        outputs.append(prepared.shape.outputs.nbytes)
        watch.stage = "lint"
        look_for_trivial(prepared)
        return prepared

    judge = Judge(prepare=prepare)
    watch.start()
    try:
        found = judge.evaluate(request, lambda stage: setattr(watch, "stage", stage))
    finally:
        watch.is_over = True
        judge.close()
    if not outputs:
        raise UserError(f"'{task.id}' could not be prepared: {found.reason}")
    shown = {
        stage: {"gib": round(held / 2**30, 2), "outputs": round(held / outputs[0], 1)}
        for stage, held in watch.most.items()
    }
    facts = {"machine": devices.label(devices.facts(device)), "torch": torch.__version__, "task": given.task}
    print(json.dumps({**facts, "set": given.set, "precision": given.precision, "status": found.status, "most": shown}))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
