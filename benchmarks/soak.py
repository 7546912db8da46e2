"""Many evaluations in a row: honest, crashing, hanging, forking, hogging, littering and log-flooding candidates, mixed.

Run `python benchmarks/soak.py --evaluations 1000 [--device auto] [--workers 1] [--seconds N] [--out FILE.json]`; needs
only torch and numpy (`PYTHONPATH=src` works). Each worker is a judge of its own; on one device they time one after the
other. After `--seconds` no further evaluation begins; the same command with the same `--out` goes on where it stopped.
Prints unexpected verdicts; how the memory and the descriptors of each judge grow (flat after the first
fifth); and what is left when the judges have ended: processes, temporary files, containers, control groups, GPU memory.
Ends with code 1 if anything of that is wrong.
"""

import argparse
import contextlib
import json
import os
import queue
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from pike.core.errors import InfraError
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, EvaluationRequest, Status
from pike.judge import processes
from pike.judge.client import JudgeClient
from pike.judge.process import cgroup

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
"""
LITTERS = """
import os
for place in (os.environ["HOME"], os.environ["TMPDIR"], os.environ["TRITON_CACHE_DIR"]):
    os.makedirs(os.path.join(place, "deep", "er"))
    for number in range(50):
        with open(os.path.join(place, "deep", "er", f"left-{number}"), "wb") as file: file.write(b"x" * 100_000)
"""
FORKS = f"""
import os, time
for _ in range(120):
    if os.fork() == 0: os.execvp("sleep", ["sleep", "{MARKER}"])
time.sleep(600)
"""
HOGS = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        kept = b"x" * (500 << 20)
        time.sleep(600)
time.sleep(600)
"""
HOG = """
import torch
kept = torch.empty(1 << 50, dtype=torch.uint8, device="cuda" if torch.cuda.is_available() else "cpu")
"""
KERNEL_HANGS = "for _ in range(3000): torch.cuda._sleep(2_000_000_000) if x.is_cuda else __import__('time').sleep(1)"
NO_SUCH_ELEMENT = "x = x + 0 * x.flatten()[torch.full((8,), 1 << 40, device=x.device)].sum()"


def in_forward(line: str) -> str:
    return HONEST.replace(FORWARD, f"{FORWARD}        {line}\n")


HANGING = {"timeout_seconds": 5.0}
KINDS: dict[str, tuple[str, Status, dict[str, Any]]] = {
    "honest": (HONEST, Status.VALID, {}),
    "floods the log": ("for _ in range(2000): print('x' * 10_000)\n" + HONEST, Status.VALID, {}),
    "leaves a daemon": (DAEMON + HONEST, Status.VALID, {}),
    "leaves files": (LITTERS + HONEST, Status.VALID, {}),
    "raises": (in_forward("raise ValueError('lost')"), Status.RUNTIME_ERROR, {}),
    "wrong": (HONEST.replace("torch.relu(", "torch.tanh("), Status.WRONG_OUTPUT, {}),
    "crashes": (in_forward("import ctypes; ctypes.string_at(0)"), Status.RUNTIME_ERROR, {}),
    "exits": (in_forward("import os; os._exit(0)"), Status.RUNTIME_ERROR, {}),
    "reads where nothing is": (in_forward(NO_SUCH_ELEMENT), Status.RUNTIME_ERROR, {}),
    "spins": (in_forward("while True: pass"), Status.TIMEOUT, HANGING),
    "sleeps": ("import time; time.sleep(3600)\n" + HONEST, Status.TIMEOUT, HANGING),
    "hangs on the device": (in_forward(KERNEL_HANGS), Status.TIMEOUT, HANGING),
    "forks": (FORKS + HONEST, Status.RESOURCE_LIMIT, {}),
    "hogs in many processes": (HOGS + HONEST, Status.RESOURCE_LIMIT, {}),
    "hogs at once": (HOG + HONEST, Status.RESOURCE_LIMIT, {}),
}
LIKELY = ("honest", "honest", "honest", *KINDS)
FLAT_MIB, FLAT_DESCRIPTORS = 0.1, 0.02
"""What a judge may gain with each evaluation, over at least `LEAST` of them: less is the allocator's wandering."""
LEAST = 50


def main() -> None:
    given = arguments()
    state = begun(given)
    left_before = left([])
    workers = [Worker(given, state) for _ in range(given.workers)]
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done = {record["number"] for record in state["done"]}
    for number in range(given.evaluations):
        if number not in done:
            todo.put(number)
    began = time.monotonic()
    threads = [threading.Thread(target=worker.work, args=(todo, began)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, judges = time.monotonic() - began, [pid for worker in workers for pid in worker.judges]
    time.sleep(0.5)
    after = left(judges)
    grown = {name: after[name] - left_before[name] for name in after}
    state["sessions"].append({"seconds": round(seconds, 1), "left": grown, "judges": [w.growth() for w in workers]})
    save(given, state)
    sys.exit(report(given, state))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", "--evaluations", type=int, default=1000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


class Worker:
    """One judge, asked one question after the other; a judge that dies is replaced, and that is a mismatch."""

    def __init__(self, given: argparse.Namespace, state: dict[str, Any]) -> None:
        self._given, self._state, self._judge = given, state, JudgeClient()
        # The same limits for all, so that the next child can be started before it is known what it will run.
        self._options = EvaluateOptions(
            given.device, sandbox=given.sandbox, timeout_seconds=120.0, max_timing_seconds=0.4, correctness_seeds=1,
            memory_bytes=3 << 30, max_processes=60, threads=1,
        )  # fmt: skip
        self.judges: list[int] = []
        self.memory: list[float] = []
        self.descriptors: list[int] = []
        self.kept: list[int] = []

    def work(self, todo: "queue.SimpleQueue[int]", began: float) -> None:
        kinds = random.Random(0).choices(LIKELY, k=self._given.evaluations)
        with contextlib.suppress(queue.Empty), contextlib.closing(self._judge):
            while time.monotonic() - began < self._given.seconds:
                number = todo.get_nowait()
                self._one(number, kinds[number])

    def _one(self, number: int, kind: str) -> None:
        source, expected, terms = KINDS[kind]
        task = Task("soak", "two linear layers", TaskKind.SOURCE, REFERENCE, "soak.py")
        started = time.monotonic()
        try:
            found = self._judge.evaluate(EvaluationRequest(task, source, replace(self._options, **terms)))
            status, reason, sandbox, device = found.status, found.reason, found.sandbox, found.device
        except InfraError as error:
            status, reason, sandbox, device = Status.INFRA_ERROR, str(error), "", ""
        record = {"number": number, "kind": kind, "status": status, "seconds": round(time.monotonic() - started, 2)}
        record |= {} if status is expected else {"expected": expected, "reason": reason}
        with LOCK:
            self._state["done"].append(record)
            self._state |= {"sandbox": sandbox, "device": device}
            save(self._given, self._state)
        self._look()
        sys.stderr.write(f"{number} {kind}: {status}, {record['seconds']} s, judge {self.memory[-1:]} MiB\n")

    def _look(self) -> None:
        pid = self._judge.pid
        if not pid:
            return
        if pid not in self.judges:
            self.judges.append(pid)
        self.memory.append(processes.resident_bytes(pid) / (1 << 20))
        self.descriptors.append(len(os.listdir(f"/proc/{pid}/fd")))
        self.kept.append(len(processes.descendants_of(pid)))

    def growth(self) -> dict[str, Any]:
        return {
            "evaluations": len(self.memory),
            "judges_started": len(self.judges),
            "memory_mib": [round(value) for value in self.memory[:: max(1, len(self.memory) // 40)]],
            "memory_mib_per_evaluation": slope(self.memory),
            "descriptors": [*self.descriptors[:1], *self.descriptors[-1:]],
            "descriptors_per_evaluation": slope(self.descriptors),
            "most_processes_kept": max(self.kept, default=0),
        }


LOCK = threading.Lock()


def slope(values: list[Any]) -> float | None:
    """The growth with each evaluation after the first fifth, by a straight line; None where there are too few."""
    settled = values[len(values) // 5 :]
    if len(settled) < LEAST:
        return None
    return round(statistics.linear_regression(range(len(settled)), settled).slope, 4)


def begun(given: argparse.Namespace) -> dict[str, Any]:
    """What an earlier run with the same terms has done, or nothing."""
    terms = {"device": given.device, "sandbox": given.sandbox}
    if given.out and given.out.exists():
        state: dict[str, Any] = json.loads(given.out.read_text())
        if state["terms"] != terms:
            sys.exit(f"{given.out} holds a soak under other terms: {state['terms']}")
        return state
    return {"terms": terms, "done": [], "sessions": []}


def save(given: argparse.Namespace, state: dict[str, Any]) -> None:
    if given.out:
        beside = given.out.with_suffix(".partial")
        beside.write_text(json.dumps(state))
        beside.replace(given.out)


def report(given: argparse.Namespace, state: dict[str, Any]) -> int:
    """Print the summary; 1 if something is wrong."""
    done, sessions = state["done"], state["sessions"]
    mismatches = [record for record in done if "expected" in record]
    leaks = [name for session in sessions for name, count in session["left"].items() if count > SLACK.get(name, 0)]
    judges = [judge for session in sessions for judge in session["judges"]]
    growing = [judge for judge in judges if (judge["memory_mib_per_evaluation"] or 0) > FLAT_MIB]
    growing += [judge for judge in judges if (judge["descriptors_per_evaluation"] or 0) > FLAT_DESCRIPTORS]
    seconds = sum(session["seconds"] for session in sessions)
    by_kind = {kind: [record["seconds"] for record in done if record["kind"] == kind] for kind in KINDS}
    print(json.dumps({
        "evaluations": len(done), "of": given.evaluations, "seconds": round(seconds, 1),
        "seconds_per_evaluation": round(seconds / max(len(done), 1), 2),
        "median_seconds_by_kind": {kind: statistics.median(took) for kind, took in by_kind.items() if took},
        "kinds": Counter(record["kind"] for record in done), "device": state.get("device"),
        "sandbox": state.get("sandbox"), "mismatches": mismatches, "sessions": sessions, "leaks": leaks,
        "growing": len(growing),
    }, indent=1))  # fmt: skip
    return int(bool(mismatches or leaks or growing))


SLACK = {"gpu_mib": 16}
"""What the driver itself may take or give back between two looks."""


def left(judges: list[int]) -> dict[str, int]:
    """What is on the machine now: marked processes; temporary files and groups of these judges; GPU memory."""
    place = cgroup.find()
    names = [f"pike-{judge}-" for judge in judges]
    lines = [words(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    temporary = Path(tempfile.gettempdir())
    return {
        "processes": sum(MARKER in line or any(name in line for name in names) for line in lines),
        "files": sum(len([*temporary.glob(f"{name}*")]) for name in names),
        "containers": sum(name.startswith(tuple(names)) for name in containers()) if names else 0,
        "groups": sum(len([*place.folder.glob(f"{name}*")]) for name in names) if place else 0,
        "gpu_mib": gpu_mib(),
    }


def containers() -> list[str]:
    asks = [
        [engine, "ps", "--all", "--format", "{{.Names}}"] for engine in ("podman", "docker") if shutil.which(engine)
    ]
    return [name for ask in asks for name in subprocess.run(ask, capture_output=True, text=True).stdout.split()]


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
