"""Evaluations per hour of the same 24 candidates, through our judges and through the published protocol.

Run `python benchmarks/evaluations_per_hour.py [--device auto] [--judges 6] [--limit 60] --out FILE.json` on an idle
machine; needs only torch and numpy (`PYTHONPATH=src` works). The published protocol is `published_protocol.py`: a cold
process for each candidate, ten in flight, one lock from load to exit. Eager, compiled, Triton, inline CUDA, broken and
hanging candidates; on a CPU the GPU ones are refused by both. `--limit` is the time limit for each candidate in both,
because a hanging one otherwise only shows how long that limit is. `--only` measures one of the two; what FILE already
holds of the other is kept, so that a machine that is lent for minutes is enough. What the published protocol has done
so far lies beside FILE; it takes one candidate after the other, so `--every 2` halves its time and not its rate. Ours
works side by side, so a batch of 24 ends with a tail in which the last hanging candidate is waited for and nothing else
is left to do; `--rounds 2` sends variants of the 24 after them in one stream, as a search does.
"""

import argparse
import json
import os
import queue
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import torch

from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, Evaluation, EvaluationRequest, Tolerance
from pike.judge.client import JudgeClient

HERE = Path(__file__).parent
HONEST = HERE / "honest"
KINDS = {"1_eager_copy": 6, "2_compile": 4, "6_triton": 6, "5_inline_cuda": 2}
BROKEN = {
    "syntax": "class ModelNew(:",
    "import": "import no_such_module\nclass ModelNew: pass",
    "raises": "EAGER\n_forward = ModelNew.forward\ndef forward(self, x): raise RuntimeError('lost')\n"
    "ModelNew.forward = forward",
    "wrong": "EAGER\n_forward = ModelNew.forward\nModelNew.forward = lambda self, x: _forward(self, x) * 1.1",
}
HANGING = {
    "sleeps": "import time\nEAGER\nModelNew.forward = lambda self, x: time.sleep(3600)",
    "spins": "EAGER\ndef forward(self, x):\n    while True: pass\nModelNew.forward = forward",
}
IN_FLIGHT = 10


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--judges", type=int, default=6)
    arguments.add_argument("--limit", type=float, default=60.0)
    arguments.add_argument("--rounds", type=int, default=1, help="ours gets so many variants of each candidate")
    arguments.add_argument("--every", type=int, default=1, help="the published protocol gets every n-th candidate only")
    arguments.add_argument("--only", choices=["ours", "published"])
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    device = given.device if given.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    found: dict[str, object] = json.loads(given.out.read_text()) if given.out.exists() else {}
    name = torch.cuda.get_device_name() if device == "cuda" else device
    found |= {"machine": name, "torch": torch.__version__, "limit_seconds": given.limit, "judges": given.judges}
    for name, run in (("ours", ours), ("published", published)):
        if given.only in (None, name):
            found[name] = run(device, given)
            given.out.write_text(json.dumps(found, indent=1))
    if "ours" in found and "published" in found:
        found["ratio"] = found["ours"]["per_hour"] / found["published"]["per_hour"]
        found["agreement"] = agreement(found["ours"]["rows"], found["published"]["rows"])
        given.out.write_text(json.dumps(found, indent=1))
    print(json.dumps({key: value for key, value in found.items() if key not in ("ours", "published")}))
    for name in ("ours", "published"):
        if name in found:
            print(name, json.dumps({key: value for key, value in found[name].items() if key != "rows"}))


def agreement(ours: dict[str, dict], published: dict[str, dict]) -> dict[str, list[float]]:
    """For each kind of candidate the medians: our speedup, the ends of its interval, the published protocol's."""
    found = {}
    for kind in KINDS:
        judged = [name for name in published if name.startswith(kind)]
        names = [name for name in judged if ours[name]["speedup"] and published[name]["speedup"]]
        if names:
            low, high = zip(*(ours[name]["speedup_ci95"] for name in names), strict=True)
            mine, theirs = ([rows[name]["speedup"] for name in names] for rows in (ours, published))
            found[kind] = [round(statistics.median(values), 3) for values in (mine, low, high, theirs)]
    return found


def candidates(round_: int = 0) -> dict[str, str]:
    """The 24 sources by name, in an order drawn for each round; no two are the same, so that no cache serves two."""
    eager = (HONEST / "1_eager_copy.py").read_text()
    made = {}
    for kind, count in KINDS.items():
        text = (HONEST / f"{kind}.py").read_text()
        made |= {f"{kind}-{number}": f"{text}\n# variant {number}\n" for number in range(count)}
    made |= {f"broken-{name}": text.replace("EAGER", eager) for name, text in BROKEN.items()}
    made |= {f"hanging-{name}": text.replace("EAGER", eager) for name, text in HANGING.items()}
    drawn = random.Random(round_).sample(list(made.items()), len(made))
    return {f"{name}-round{round_}" if round_ else name: f"{text}\n# round {round_}\n" for name, text in drawn}


def ours(device: str, given: argparse.Namespace) -> dict[str, object]:
    """All candidates through a pool of judges."""
    task = Task("honest", "gated residual layer", TaskKind.SOURCE, (HONEST / "task.py").read_text(), "task.py")
    options = EvaluateOptions(device=device, timeout_seconds=given.limit, tolerance=Tolerance.PAPER)
    idle: queue.Queue[JudgeClient] = queue.Queue()
    judges = [JudgeClient() for _ in range(given.judges)]
    for judge in judges:
        idle.put(judge)

    def one(source: str) -> Evaluation:
        judge = idle.get()
        try:
            return judge.evaluate(EvaluationRequest(task, source, options))
        finally:
            idle.put(judge)

    waiting = {name: text for round_ in range(given.rounds) for name, text in candidates(round_).items()}
    began = time.monotonic()
    with ThreadPoolExecutor(given.judges) as pool:
        verdicts = dict(zip(waiting, pool.map(one, waiting.values()), strict=True))
    seconds = time.monotonic() - began
    for judge in judges:
        judge.close()
    rows = {name: verdict.flat() | {"log": ""} for name, verdict in verdicts.items()}  # logs name folders
    alone = [dict(verdict.seconds)["time"] for verdict in verdicts.values() if verdict.valid]
    return summary(rows, seconds, alone)


def published(device: str, given: argparse.Namespace) -> dict[str, object]:
    """All candidates through the published protocol, the reference first (not counted)."""
    with tempfile.TemporaryDirectory(prefix="published-") as folder:
        reference = _cold(HONEST / "task.py", device, Path(folder), given.limit)
        eager_ms = reference["candidate_ms"]
        files = {}
        for name, text in list(candidates().items())[:: given.every]:
            files[name] = Path(folder) / f"{name}.py"
            files[name].write_text(text)
        began, rows = time.monotonic(), {}
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            waiting = {
                pool.submit(_cold, file, device, Path(folder), given.limit): name for name, file in files.items()
            }
            for future in as_completed(waiting):
                row = future.result()
                rows[waiting[future]] = row | {
                    "speedup": eager_ms / row["candidate_ms"] if "candidate_ms" in row else None
                }
                alone = [row["locked_seconds"] for row in rows.values() if row["status"] == "valid"]
                found = summary(rows, time.monotonic() - began, alone)
                given.out.with_suffix(".published.json").write_text(json.dumps(found, indent=1))
    return found


def _cold(candidate: Path, device: str, folder: Path, limit: float) -> dict[str, object]:
    """One cold process; its limit runs from when it has the device."""
    command = [sys.executable, str(HERE / "published_protocol.py"), str(HONEST / "task.py"), str(candidate), device]
    environment = os.environ | {"TORCH_EXTENSIONS_DIR": str(folder / f"extensions-{candidate.stem}")}
    process = subprocess.Popen(
        [*command, str(folder / "device.lock")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=environment, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    began = time.monotonic()
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"status": "timeout", "locked_seconds": time.monotonic() - began}
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {"status": "crashed", "locked_seconds": time.monotonic() - began}


def summary(rows: dict[str, dict[str, object]], seconds: float, alone_seconds: list[float]) -> dict[str, object]:
    """Evaluations per hour, the median time for which a valid candidate had the device alone, and every row."""
    return {
        "seconds": seconds,
        "per_hour": 3600 * len(rows) / seconds,
        "median_alone_seconds": statistics.median(alone_seconds) if alone_seconds else None,
        "valid": sum(row["status"] == "valid" for row in rows.values()),
        "rows": rows,
    }


if __name__ == "__main__":
    main()
