"""Many evaluations through one judge: honest, crashing, hanging, forking, hogging and log-flooding candidates, mixed.

Run `python benchmarks/soak.py [-n 1000] [--device auto] [--sandbox auto] [--out FILE.json]`; needs only torch and numpy
(`PYTHONPATH=src` works). Prints verdicts that are not the ones owed, the judge's memory over time (flat after the first
tenth), and what is left when the judge has ended: processes, temporary files, control groups, GPU memory. About seven
seconds an evaluation on a CPU with two cores.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from pike.core.evaluation import EvaluateOptions, EvaluationRequest, Status
from pike.core.task import Task, TaskKind
from pike.evaluate import cgroup, processes
from pike.evaluate.client import JudgeClient

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(96, 96), nn.Linear(96, 96, bias=False)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

def get_inputs():
    return [torch.randn(64, 96)]

def get_init_inputs():
    return []
"""
HONEST = REFERENCE.replace("class Model(", "class ModelNew(")
FORWARD = "    def forward(self, x):\n"
MARKER = f"31537{os.getpid()}"
DAEMON = f"""
import os, signal
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0: os.execvp("sleep", ["sleep", "{MARKER}"])
    os._exit(0)
open("/tmp/pike-soak-{MARKER}", "w").write("left") if os.environ.get("HOME", "").startswith("/tmp/pike") else None
"""
FORKS = f"""
import os, time
for _ in range(120):
    if os.fork() == 0: os.execvp("sleep", ["sleep", "{MARKER}"])
time.sleep(600)
"""
HOGS = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        kept = b"x" * (500 << 20)
        time.sleep(600)
time.sleep(600)
"""
GPU_HOG = """
import torch
kept = torch.empty(1 << 50, dtype=torch.uint8, device="cuda" if torch.cuda.is_available() else "cpu")
"""


def in_forward(line: str) -> str:
    return HONEST.replace(FORWARD, f"{FORWARD}        {line}\n")


KINDS = {
    "honest": (HONEST, Status.VALID, {}),
    "floods the log": ("for _ in range(2000): print('x' * 10_000)\n" + HONEST, Status.VALID, {}),
    "leaves a daemon": (DAEMON + HONEST, Status.VALID, {}),
    "raises": (in_forward("raise ValueError('lost')"), Status.RUNTIME_ERROR, {}),
    "wrong": (HONEST.replace("torch.relu(", "torch.tanh("), Status.WRONG_OUTPUT, {}),
    "crashes": (in_forward("import ctypes; ctypes.string_at(0)"), Status.RUNTIME_ERROR, {}),
    "exits": (in_forward("import os; os._exit(0)"), Status.RUNTIME_ERROR, {}),
    "spins": (in_forward("while True: pass"), Status.TIMEOUT, {"timeout_seconds": 12.0}),
    "sleeps": ("import time; time.sleep(3600)\n" + HONEST, Status.TIMEOUT, {"timeout_seconds": 12.0}),
    "forks": (FORKS + HONEST, Status.RESOURCE_LIMIT, {"max_processes": 50}),
    "hogs in many processes": (HOGS + HONEST, Status.RESOURCE_LIMIT, {"memory_bytes": 2 << 30}),
    "hogs at once": (GPU_HOG + HONEST, Status.RESOURCE_LIMIT, {}),
}
LIKELY = ("honest", "honest", "honest", *KINDS)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("-n", type=int, default=1000)
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--sandbox", default="auto")
    arguments.add_argument("--out", type=Path)
    given = arguments.parse_args()
    before = left(0)
    found = soak(given)
    time.sleep(0.5)
    after = left(found.pop("judge"))
    found["left_behind"] = {name: after[name] - before[name] for name in after}
    text = json.dumps(found, indent=1)
    print(text)
    if given.out:
        given.out.write_text(text)
    sys.exit(bool(found["mismatches"] or any(count > 0 for name, count in found["left_behind"].items())))


def soak(given: argparse.Namespace) -> dict[str, object]:
    options = EvaluateOptions(
        device=given.device, sandbox=given.sandbox, timeout_seconds=120.0, max_timing_seconds=0.5, correctness_seeds=1
    )
    task = Task("soak", "two linear layers", TaskKind.SOURCE, REFERENCE, "soak.py")
    kinds = random.Random(0).choices(LIKELY, k=given.n)
    judge, began = JudgeClient(), time.monotonic()
    counts, mismatches, memory = Counter[str](), [], []
    try:
        for number, kind in enumerate(kinds):
            source, owed, terms = KINDS[kind]
            verdict = judge.evaluate(EvaluationRequest(task, source, replace(options, **terms)))
            counts[kind] += 1
            if verdict.status is not owed:
                mismatches.append({"number": number, "kind": kind, "status": verdict.status, "reason": verdict.reason})
            memory.append(processes.resident_bytes(judge._process.pid) >> 20)
            sys.stderr.write(f"{number} {kind}: {verdict.status}, judge {memory[-1]} MiB\n")
        pid, kept = judge._process.pid, len(processes.descendants_of(judge._process.pid))
    finally:
        judge.close()
    settled = memory[len(memory) // 10 :]
    return {
        "evaluations": given.n,
        "seconds": round(time.monotonic() - began, 1),
        "kinds": dict(counts),
        "sandbox": verdict.sandbox,
        "device": verdict.device,
        "mismatches": mismatches,
        "judge_memory_mib": {"first": memory[0], "settled": settled[0], "last": memory[-1], "most": max(memory)},
        "judge_memory_over_time_mib": memory[:: max(1, len(memory) // 50)],
        "processes_kept_by_the_judge": kept,
        "judge": pid,
    }


def left(judge: int) -> dict[str, int]:
    """What is on the machine now: marked or orphaned processes, temporary files and groups of a judge, GPU memory."""
    place = cgroup.find()
    lines = [words(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    temporary = Path(tempfile.gettempdir())
    return {
        "processes": sum(MARKER in line or f"pike-{judge}-" in line for line in lines),
        "files": len([*temporary.glob(f"pike-{judge}-*"), *temporary.glob(f"pike-soak-{MARKER}")]),
        "groups": len(list(place.folder.glob(f"pike-{judge}-*"))) if place else 0,
        "gpu_mib": gpu_mib(),
    }


def words(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def gpu_mib() -> int:
    if not shutil.which("nvidia-smi"):
        return 0
    ask = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    lines = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.split()
    return sum(int(line) for line in lines if line.isdigit())


if __name__ == "__main__":
    main()
