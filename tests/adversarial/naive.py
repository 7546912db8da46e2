"""A harness as they are often written: candidate, reference, clock and comparison in one process. The attacks' prey.

Started once as `python naive.py`; reads one JSON object a line (`task`, `source`, `options`, `seconds`) and answers each with
one JSON object: what the harness believes, and what it did not notice. Every sample runs in a process forked for it, in its
own session and folder, which is killed afterwards with whatever it left behind. Not part of the evaluator in any way.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import pickle
import shutil
import signal
import statistics
import sys
import tempfile
import time
import timeit
import traceback
from pathlib import Path
from typing import IO, Any

import torch

TOLERANCE = 1e-2
CALLS = 20
FORBIDDEN = ("perf_counter", "allclose", "threading")


def main() -> None:
    """Serve requests until stdin ends."""
    torch.set_num_threads(1)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what a sample leaves behind becomes ours
    folder = tempfile.mkdtemp(prefix="naive-")
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    try:
        for line in sys.stdin:
            print(json.dumps(observe(json.loads(line), folder, channel)), file=channel)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def observe(request: dict[str, Any], folder: str, channel: IO[str]) -> dict[str, Any]:
    """Run one sample and tell what came of it."""
    report, log = Path(folder, "report.json"), Path(folder, "log.txt")
    report.unlink(missing_ok=True)
    collector = os.fork()
    if collector == 0:
        os.setsid()
        channel.close()
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(folder)
        signal.alarm(int(request["seconds"]) + 5)
        try:
            report.write_text(json.dumps(collect(request)))
        finally:
            os._exit(0)
    hung = not wait_for(collector, request["seconds"])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(collector, signal.SIGKILL)
    left = kill_children()
    text = log.read_text(errors="replace")
    believed = json.loads(report.read_text()) if report.exists() else {"died": True}
    reached = any(line.startswith("REACHED") for line in text.splitlines())
    return {"hung": hung, "left": left, "reached": reached, "log_bytes": len(text), "log": text[-2000:], **believed}


def wait_for(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    return False


def kill_children() -> int:
    """End everything that still descends from us; returns how many processes there were besides the known ones."""
    killed = 0
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        tasks = [pid for pid in os.listdir("/proc") if pid.isdigit() and parent_of(pid) == os.getpid()]
        if not tasks:
            break
        for pid in tasks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(pid), 0)
            killed += 1
    return killed


def parent_of(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def collect(request: dict[str, Any]) -> dict[str, Any]:
    """The harness's parent: takes the worker's word, as a pickle; an exit status of 0 without a word is a pass."""
    receive, send = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(receive)
        try:
            os.write(send, pickle.dumps(work(request)))
        except Exception:
            traceback.print_exc()
            os._exit(1)
        except SystemExit:
            os._exit(0)
        atexit._run_exitfuncs()
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        try:
            found = dict(pickle.load(pipe))
        except EOFError:
            found = {}
    status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    printed = [line for line in Path("log.txt").read_text().splitlines() if line.startswith("{")]
    spoken = json.loads(printed[-1]) if printed else {}
    return {"accepted": status == 0, "died": status != 0, "speedup": 1.0, **found, **spoken}


def work(request: dict[str, Any]) -> dict[str, Any]:
    """The harness itself. Reference and candidate share a namespace, seeds are fixed, the candidate goes first."""
    options = request["options"]
    if "static-check" in options and any(word in request["source"] for word in FORBIDDEN):
        return {"accepted": False, "speedup": 0.0, "why": "forbidden word"}
    space: dict[str, Any] = {"__name__": "naive_space"}
    exec(request["task"], space)
    torch.manual_seed(42)
    model = space["Model"](*space["get_init_inputs"]()).eval()
    baseline = baseline_of(model, space)
    exec(request["source"], space)
    torch.manual_seed(42)
    kind = space["ModelNew"]
    if hasattr(kind, "from_reference"):
        candidate = kind.from_reference(model)
    else:
        candidate = kind(*space["get_init_inputs"]())
        with contextlib.suppress(RuntimeError, AttributeError):
            candidate.load_state_dict(model.state_dict())
    candidate = candidate.eval() if isinstance(candidate, torch.nn.Module) else candidate
    torch.manual_seed(0)
    inputs = space["get_inputs"]()
    kwargs = inputs if isinstance(inputs, dict) else {}
    args = () if isinstance(inputs, dict) else inputs
    with torch.no_grad():
        if "reference-first" in options:
            accepted, candidate_seconds = judge_after(model, candidate, args, kwargs)
            reference_seconds = baseline
        else:
            got, candidate_seconds = timed(candidate, args, kwargs)
            want, late = timed(model, args, kwargs)
            reference_seconds = late if "late-baseline" in options else baseline
            accepted = compare(got, want[:1] if "first-output" in options else want)
    speedup = max(r / max(c, 1e-12) for r, c in zip(reference_seconds, candidate_seconds, strict=True))
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmPeak:")[2].split()[0]) << 10
    return {"accepted": accepted, "speedup": speedup, "peak": peak, "extra": getattr(candidate, "extra", None)}


@torch.no_grad()
def baseline_of(model: Any, space: dict[str, Any]) -> list[float]:
    """How long a call of the reference takes, before anything of the candidate ran."""
    inputs = space["get_inputs"]()
    return timed(model, *(((), inputs) if isinstance(inputs, dict) else (inputs, {})))[1]


def judge_after(model: Any, candidate: Any, args: Any, kwargs: Any) -> tuple[bool, list[float]]:
    """With the expected output in memory all the while."""
    expected = model(*args, **kwargs)
    _, candidate_seconds = timed(candidate, args, kwargs)
    kept = [leaf.clone() for leaf in leaves(expected)]
    again = model(*args, **kwargs)
    del expected, again
    got = candidate(*args, **kwargs)
    return compare(got, tuple(kept)), candidate_seconds


def timed(model: Any, args: Any, kwargs: Any) -> tuple[Any, list[float]]:
    """The last output, and the time of a call by two methods."""
    for _ in range(3):
        result = model(*args, **kwargs)
    seconds = []
    for _ in range(CALLS):
        started = time.perf_counter()
        result = model(*args, **kwargs)
        seconds.append(time.perf_counter() - started)
    other = timeit.timeit(lambda: model(*args, **kwargs), number=CALLS)
    return result, [statistics.median(seconds), other / CALLS]


def compare(got: Any, want: Any) -> bool:
    """Close by either of two popular tests."""
    for one, other in zip(leaves(got), leaves(want), strict=False):
        mine, theirs = one.float(), other.float()
        close = torch.allclose(mine, theirs, atol=TOLERANCE, rtol=TOLERANCE)
        if not close and bool(((mine - theirs).abs() > TOLERANCE).any()):
            return False
    return True


def leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


if __name__ == "__main__":
    main()
