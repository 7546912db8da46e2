"""Do many workers stay busy? Campaigns on simulated judges, with verdicts as long as an H100's were.

A worker sleeps on a simulated clock for as long as a recorded verdict took; so does a model's answer. The driver's work
is real (threads, strategies, prompts, journals, syncs), and the clock stands still for none of it: it counts the
process's CPU time and the waits for the disk. So it says what a driver with a core of its own would reach, whatever
else runs here. `--ray ACTORS` takes a real Ray cluster on this machine and the real clock instead: so many processes
stand for all the workers, which sleep there.

Run `python benchmarks/worker_scale.py --workers N --searches N --queries N --runs N`; prints one JSON object.
"""

import argparse
import asyncio
import gzip
import hashlib
import json
import os
import platform
import resource
import selectors
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pike.core.comparison.campaign import CampaignFile
from pike.core.device import DeviceFacts
from pike.core.query import Answer, Query
from pike.core.verdict.evaluation import Effort, Evaluation, EvaluationRequest
from pike.engine.executors.instant import instant_verdict
from pike.engine.executors.pool import WorkerPool
from pike.engine.schedule.campaign import CampaignWiring, start_campaign
from pike.engine.schedule.plan import make_plan
from pike.engine.schedule.progress import CampaignProgress

TRIALS = Path(__file__).parent / "trials"
MIXTURE = "h100-2026-11-26/evaluations_per_hour.json"
LOGS = ("h100-2026-11-26/zoo_half_timelines.jsonl.gz", "h100-x2-2026-11-26/zoo_half_timelines.jsonl.gz")
PARTS = ("lock-wait", "first-call")
"""What a verdict lists beside its stages: a wait that workers of a machine share, and a part of `correct`."""
STAGES = ("parse", "build", "load", "waiting", "correct", "time", "recheck")
TASK = "class Model: ...\n# {number}\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n"
IDEAS = "\n".join(f"{number}. idea {number}: fuse what can be fused" for number in range(1, 11))
BODY = "\n".join(f"        x = torch.relu(x) * {line}  # a line of a candidate of some length" for line in range(40))
CODE = "```python\nimport torch\n# {mark}\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"


def recorded() -> dict[Effort, list[float]]:
    """Seconds of every verdict in the committed logs, by effort."""
    mixture = json.loads((TRIALS / MIXTURE).read_text())["ours"]["rows"].values()
    found = {Effort.SEARCH: [_worked(row["seconds"].items()) for row in mixture], Effort.FINAL: []}
    for name in LOGS:
        with gzip.open(TRIALS / name, "rt") as file:
            for entry in map(json.loads, file):
                if entry["event"] == "Judged" and entry["seconds"]:
                    found[Effort(entry["effort"])].append(_worked(entry["seconds"]))
    return found


def _worked(seconds: Iterable[tuple[str, float]]) -> float:
    return sum(value for stage, value in seconds if stage not in PARTS)


class Clock:
    """Simulated seconds: what the driver worked or waited for, and what was skipped."""

    def __init__(self) -> None:
        self.skipped, self._worked = 0.0, time.process_time()

    def look(self) -> float:
        """Once for each round of the loop: asking is slow in a process of many threads."""
        self._worked = time.process_time()
        return self._worked

    def now(self) -> float:
        return self._worked + self.skipped


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Skips the time in which nothing but simulated sleep goes on.

    Attributes:
        asleep: threads that sleep on the simulated clock.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock, self.asleep, self._threads = clock, 0, 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.clock.now()

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        self._threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: Any) -> None:
        self._threads -= 1

    @property
    def works_elsewhere(self) -> bool:
        """Whether a thread does real work, which takes real time."""
        return self._threads > self.asleep

    def sleep_here(self, seconds: float) -> None:
        """Sleep in a thread of an executor."""
        woken = threading.Event()
        self.call_soon_threadsafe(self._lay_down, seconds, woken)
        woken.wait()

    def _lay_down(self, seconds: float, woken: threading.Event) -> None:
        self.asleep += 1
        self.call_later(seconds, self._wake, woken)

    def _wake(self, woken: threading.Event) -> None:
        self.asleep -= 1
        woken.set()


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        clock = self._loop.clock
        worked = clock.look()
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        if self._loop.works_elsewhere:
            began = time.monotonic()
            found = super().select(0.01 if timeout is None else min(timeout, 0.01))
            waited = time.monotonic() - began - (clock.look() - worked)
            clock.skipped += max(0.0, waited)
            return found
        if found := super().select(0):
            return found
        clock.skipped += timeout or 0.0
        return [] if timeout is not None else super().select(0.05)


class Book:
    """Who evaluated when, by the campaign's clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now, self._lock = now, threading.Lock()
        self.spans: list[tuple[float, float, int]] = []

    def note(self, began: float, candidates: int) -> None:
        with self._lock:
            self.spans.append((began, self.now(), candidates))

    def busy(self, until: float) -> float:
        return sum(max(0.0, min(end, until) - began) for began, end, _ in self.spans)

    def judged(self, until: float) -> int:
        return sum(candidates for _, end, candidates in self.spans if end <= until)


class SleepingJudge:
    """A verdict drawn by the source's hash, after as long as a recorded one took."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep, book: Book | None = None) -> None:
        self._sleep, self._book, self._seconds = sleep, book, recorded()

    def evaluate(self, request: EvaluationRequest, on_stage: Any = None) -> Evaluation:
        return self.evaluate_together([request], on_stage)[0]

    def evaluate_together(self, requests: Sequence[EvaluationRequest], on_stage: Any = None) -> list[Evaluation]:
        began = self._book.now() if self._book else 0.0
        whole = sum(self._drawn(request) for request in requests)
        for stage in STAGES:
            if on_stage is not None:
                on_stage(stage)
        self._sleep(whole)
        if self._book:
            self._book.note(began, len(requests))
        return [instant_verdict(request) for request in requests]

    def _drawn(self, request: EvaluationRequest) -> float:
        known = self._seconds[request.effort]
        return known[int.from_bytes(hashlib.sha256(request.source.encode()).digest()[8:12]) % len(known)]

    def preflight(self, request: EvaluationRequest) -> float:
        return 10.0

    def facts(self, device: str) -> DeviceFacts:
        return DeviceFacts("cpu", "simulated", versions=(("torch", "none"),))

    def release(self) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...


class Model:
    """Answers every query with a candidate of its own, after a while."""

    name = "scripted:simulated"

    def __init__(self, seconds: float) -> None:
        self._seconds, self._count = seconds, 0

    async def complete(self, query: Query) -> Answer:
        number = self._count = self._count + 1
        seconds = self._seconds * (0.5 + number * 0.618 % 1.0)
        await asyncio.sleep(seconds)
        mark = f"{query.role.value} {number}"
        text = IDEAS if query.role.value == "iba" else CODE.format(mark=mark) + BODY + "\n        return x\n```\n"
        return Answer(text, input_tokens=len(query.prompt) // 4, output_tokens=len(text) // 4, latency_seconds=seconds)

    def price(self) -> None: ...
    async def check(self) -> None: ...
    async def aclose(self) -> None: ...


def configuration(folder: Path, chosen: argparse.Namespace) -> CampaignFile:
    """Runs of all strategies that write with models."""
    strategies = chosen.strategies[: chosen.runs]
    tasks = []
    for number in range(-(-chosen.runs // len(strategies))):
        path = folder / f"task{number}.py"
        path.write_text(TASK.format(number=number))
        tasks.append(str(path))
    (folder / "model.json").write_text(json.dumps({"model": "none", "answer": [{"text": "never asked"}]}))
    layer = {
        "campaign": {"tasks": tasks, "contenders": strategies, "concurrency": chosen.searches},
        "llm": {"coa": f"scripted:{folder / 'model.json'}"},
        "budget": {"queries": chosen.queries},
        "engine": {"concurrency": chosen.in_flight},
    }
    return CampaignFile().put(layer)


class Watch:
    """Notes when fewer runs were open than may be: from then on the campaign comes to its end."""

    def __init__(self, book: Book, searches: int) -> None:
        self._book, self._searches = book, searches
        self.full_until = 0.0

    def __call__(self, progress: CampaignProgress) -> None:
        if len(progress.open) >= self._searches:
            self.full_until = self._book.now()


def pool_here(loop: SimulatedLoop, workers: int, book: Book) -> WorkerPool:
    return WorkerPool([lambda: SleepingJudge(loop.sleep_here, book)], workers, apart=True)


class NotedWorker:
    """A worker elsewhere whose evaluations are noted here."""

    def __init__(self, worker: Any, book: Book) -> None:
        self._worker, self._book = worker, book

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)

    def evaluate(self, request: EvaluationRequest, on_stage: Any = None) -> Evaluation:
        return self.evaluate_together([request], on_stage)[0]

    def evaluate_together(self, requests: Sequence[EvaluationRequest], on_stage: Any = None) -> list[Evaluation]:
        began = self._book.now()
        found = self._worker.evaluate_together(requests, on_stage)
        self._book.note(began, len(requests))
        return list(found)


def pool_of_ray(actors: int, workers: int, book: Book) -> WorkerPool:
    """Workers that share a few actors, which do the driver's and the network's part as one each would."""
    import sys

    import ray
    from ray.cluster_utils import Cluster

    from pike.engine.executors import ray_workers

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": actors * ray_workers.CPUS_PER_JUDGE})
    made = ray_workers.RayWorkers(cluster.address, SleepingJudge)
    share = {"num_cpus": ray_workers.CPUS_PER_JUDGE, "max_concurrency": -(-workers // actors) + 1}
    handles = [ray.remote(ray_workers._Judge).options(**share).remote(SleepingJudge) for _ in range(actors)]
    turn = iter(range(10**9))
    assert made.size == actors

    def start() -> NotedWorker:
        return NotedWorker(ray_workers.RayWorker(ray, lambda: handles[next(turn) % actors], lambda _: None), book)

    return WorkerPool([start], workers, apart=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--workers", type=int, default=64)
    arguments.add_argument("--searches", type=int, default=8, help="runs that are open at once")
    arguments.add_argument("--in-flight", type=int, default=20, help="steps of each run in flight")
    arguments.add_argument("--runs", type=int, default=24)
    arguments.add_argument("--queries", type=int, default=300)
    arguments.add_argument("--answer-seconds", type=float, default=30.0, help="mean time of a model's answer")
    arguments.add_argument("--strategies", nargs="+", default=["pike-b", "pike-o", "best-of-n"])
    arguments.add_argument("--ray", type=int, default=0, metavar="ACTORS")
    arguments.add_argument("--folder", type=Path, default=None)
    arguments.add_argument("--profile", type=Path, default=None)
    chosen = arguments.parse_args()
    clock = Clock()
    loop = asyncio.new_event_loop() if chosen.ray else SimulatedLoop(clock)
    book = Book(loop.time)
    pool = pool_of_ray(chosen.ray, chosen.workers, book) if chosen.ray else pool_here(loop, chosen.workers, book)
    watch, model = Watch(book, chosen.searches), Model(chosen.answer_seconds)
    wiring = CampaignWiring(pool, lambda *_: model, None, watch, handle_signals=False)
    with tempfile.TemporaryDirectory(prefix="worker-scale-", dir=chosen.folder) as scratch:
        plan = make_plan(configuration(Path(scratch), chosen))
        profiler = None
        if chosen.profile:
            import cProfile

            profiler = cProfile.Profile()
            profiler.enable()
        began, real, cpu = loop.time(), time.monotonic(), time.process_time()
        figures = loop.run_until_complete(start_campaign(plan, Path(scratch) / "c", wiring))
        seconds, real, cpu = loop.time() - began, time.monotonic() - real, time.process_time() - cpu
        if profiler:
            profiler.disable()
            profiler.dump_stats(chosen.profile)
    full = watch.full_until - began
    judged, work = book.judged(float("inf")), book.busy(float("inf"))
    result = {
        "benchmark": "worker_scale",
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "load_average_at_the_end": os.getloadavg(),
        **{
            name: getattr(chosen, name)
            for name in ("workers", "searches", "in_flight", "strategies", "runs", "queries", "answer_seconds")
        },
        "clock": f"real, Ray with {chosen.ray} actors" if chosen.ray else "simulated",
        "runs_finished": sum(bool(cell.run and cell.run.finished) for cell in figures.cells),
        "judged": judged,
        "seconds_of_a_verdict": round(work / judged, 2),
        "seconds": round(seconds, 1),
        "share_evaluating": round(work / seconds / chosen.workers, 4),
        "seconds_while_all_are_open": round(full, 1),
        "share_evaluating_while_all_are_open": round(book.busy(watch.full_until) / full / chosen.workers, 4)
        if full > 0
        else None,
        "judged_per_second_while_all_are_open": round(book.judged(watch.full_until) / full, 4) if full > 0 else None,
        "driver_cpu_seconds": round(cpu, 1),
        "driver_cores": round(cpu / seconds, 3),
        "driver_ms_per_verdict": round(1e3 * cpu / judged, 2),
        "most_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "real_seconds": round(real, 1),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
