"""Verdicts per hour on several GPUs of one host: the same work for each GPU.

Every GPU gets a copy of the same units, so that N GPUs do N times the work of one and the mixture stays the same; the
ratio of seconds is then what a GPU more brings. A unit is a task cold, as a suite has it: recipes explore it, then
their first compositions are judged, then quick baselines, one after the other. As many units are open as judges work.

Run `python benchmarks/several_gpus.py --out FILE.json [--devices cuda:0,cuda:1] [--executor ray:ADDRESS --gpus N]` on
an idle machine; several may share a host if each has its GPUs (CUDA_VISIBLE_DEVICES) and processors (taskset). `--kill
SECONDS` sends SIGKILL to one judge then. Needs only torch and numpy (`PYTHONPATH=src` works), and ray where named.
`--compare FILE...` prints a table of what was measured, against the first file.
"""

import argparse
import asyncio
import gzip
import json
import os
import random
import signal
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from pages.several_gpus_page import SHORT_MS, medians

from pike import tasks
from pike.core.comparison.contender import Contender
from pike.core.settings.config import EngineConfig
from pike.core.task import Task
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest, Precision
from pike.engine.executors.choice import executor_of, explorer_of
from pike.engine.executors.pool import WorkerPool
from pike.engine.schedule.contenders.candidates import candidate_of
from pike.engine.schedule.contenders.histories import Histories
from pike.engine.schedule.contenders.naming import contenders_named
from pike.recipes.search.proposals import proposal
from pike.tasks import variants

BASELINES = ("eager", "cuda-graph", "compile")


def main() -> None:
    """Measure, or compare what was measured."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--suite", default="level3-pike")
    arguments.add_argument("--every", type=int, default=3, help="every n-th task of the suite")
    arguments.add_argument("--small", action="store_true", help="the tasks' small forms")
    arguments.add_argument("--device", default="cuda")
    arguments.add_argument("--devices", default="", help="all or cuda:0,...; one GPU where it is empty")
    arguments.add_argument("--executor", default="local")
    arguments.add_argument("--gpus", type=int, default=1, help="copies of the work, and GPUs that share it")
    arguments.add_argument("--judges", type=int, default=10, help="for each GPU")
    arguments.add_argument("--compositions", type=int, default=2)
    arguments.add_argument("--precision", default="half")
    arguments.add_argument("--limit", type=float, help="seconds after which the rest is left out")
    arguments.add_argument("--kill", type=float, default=0.0, help="after so many seconds one judge gets SIGKILL")
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--compare", type=Path, nargs="+")
    given = arguments.parse_args()
    if given.compare:
        compare([read(path) for path in given.compare], [path.stem for path in given.compare])
    else:
        found = asyncio.run(measured(given))
        given.out.write_text(json.dumps(found, indent=1))
        print(json.dumps({key: value for key, value in found.items() if key != "rows"}))


def read(path: Path) -> dict[str, Any]:
    """What a measurement wrote, also as `.json.gz`."""
    content = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    return found


async def measured(given: argparse.Namespace) -> dict[str, Any]:
    """All units, once for each GPU."""
    devices = tuple(filter(None, given.devices.split(",")))
    config = EngineConfig(executor=given.executor, devices=devices, judges=given.judges * given.gpus)
    options = EvaluateOptions(device=given.device, precision=Precision(given.precision), max_timing_seconds=1.0)
    members = tasks.in_suite(given.suite)[:: given.every]
    units = [variants.small(task) if given.small else task for task in members for _ in range(given.gpus)]
    random.Random(0).shuffle(units)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * config.judges + 8))
    executor = executor_of(config)
    facts = await executor.facts(given.device)
    stream = Stream(executor, config, options, contenders_named(BASELINES, {}), given.compositions, facts)
    killing = asyncio.create_task(kill_one(given.kill, stream, given.executor)) if given.kill else None
    places = asyncio.Semaphore(config.judges)
    work = asyncio.gather(*(stream.unit(number, task, places) for number, task in enumerate(units)))
    with suppress(TimeoutError):
        await asyncio.wait_for(work, given.limit)
    seconds = time.monotonic() - stream.began
    stream.explorer.close()
    await executor.aclose()
    judged = [row for row in stream.rows if row["way"] != "explore"]
    busy = sum(row["ended"] - row["began"] for row in judged)
    return {
        "machine": facts.name,
        "versions": dict(facts.versions),
        "cpus": len(os.sched_getaffinity(0)),
        "executor": given.executor.partition(":")[0],
        "gpus": given.gpus,
        "judges": config.judges,
        "units": len(units),
        "verdicts": len(judged),
        "seconds": round(seconds, 1),
        "verdicts_per_hour": round(3600 * len(judged) / seconds),
        "middle_per_hour": round(middle(judged)),
        "busy_share": round(busy / seconds / config.judges, 3),
        "killed": (await killing) if killing else None,
        "statuses": {one: sum(row["status"] == one for row in judged) for one in {row["status"] for row in judged}},
        "rows": stream.rows,
    }


def middle(rows: list[dict[str, Any]]) -> float:
    """Verdicts an hour between the first and the last sixth of them: neither the start nor the tail."""
    ends = sorted(row["ended"] for row in rows)
    low, high = len(ends) // 6, len(ends) - len(ends) // 6 - 1
    return 3600.0 * (high - low) / max(float(ends[high] - ends[low]), 1e-9)


class Stream:
    """Carries units out and notes every verdict."""

    def __init__(
        self,
        executor: WorkerPool,
        config: EngineConfig,
        options: EvaluateOptions,
        baselines: tuple[Contender, ...],
        compositions: int,
        facts: Any,
    ) -> None:
        self.executor, self.options, self.facts = executor, options, facts
        self.baselines, self.compositions = baselines, compositions
        self.explorer = explorer_of(executor, config)
        self.rows: list[dict[str, Any]] = []
        self.began = time.monotonic()

    async def unit(self, number: int, task: Task, places: asyncio.Semaphore) -> None:
        """One task, from nothing known to its last verdict."""
        async with places:
            began = self._now()
            explored = await asyncio.to_thread(self.explorer.explore, task, self.facts, self.options)
            row = {"unit": number, "task": task.name, "way": "explore", "began": began, "ended": self._now()}
            self.rows.append(row)
            for names in explored.space.ranked[: self.compositions]:
                await self._judge(number, task, "+".join(names), proposal(task, names, explored.adapted).source)
            for contender in self.baselines:
                source = candidate_of(contender, task, self.options.precision, Histories()).source
                await self._judge(number, task, contender.name, source)

    async def _judge(self, number: int, task: Task, way: str, source: str) -> None:
        if not source:
            return
        stages: list[tuple[str, float]] = []
        request = EvaluationRequest(task, source, self.options, Effort.SEARCH)
        asked = self._now()
        evaluation = await self.executor.evaluate(request, lambda stage: stages.append((stage, self._now())))
        where = [(stage, when) for stage, when in stages if stage.startswith("worker")]
        row = {"unit": number, "task": task.name, "way": way, "asked": asked, "ended": self._now(), "stages_at": stages}
        self.rows.append(row | {"began": where[-1][1], "worker": where[-1][0], "tries": len(where)} | told(evaluation))

    def _now(self) -> float:
        return round(time.monotonic() - self.began, 2)


def told(evaluation: Evaluation) -> dict[str, Any]:
    """What is kept of a verdict."""
    timing = evaluation.timing
    times = {"reference_ms": timing.reference_ms, "candidate_ms": timing.candidate_ms} if timing else {}
    known = {"status": evaluation.status.value, "reason": evaluation.reason[:200], "gpu": evaluation.device}
    more = {
        "labels": list(evaluation.labels),
        "stages": [[name, round(value, 2)] for name, value in evaluation.seconds],
    }
    return known | times | more


async def kill_one(seconds: float, stream: Stream, executor: str) -> str:
    """SIGKILL for a judge of this process, or for an actor on this host."""
    await asyncio.sleep(seconds)
    wanted = "ray::_Judge" if executor != "local" else "pike.judge"
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: path.name[::-1]):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if wanted in line and (executor != "local" or parent == os.getpid()):
            os.kill(int(folder.name), signal.SIGKILL)
            return f"{line.split()[-1][:60]} after {time.monotonic() - stream.began:.0f} s"
    return "nobody was found"


def compare(found: list[dict[str, Any]], names: list[str]) -> None:
    """Rates against the first file, and times of the same task and way."""
    base, keys = found[0], ("gpus", "cpus", "judges", "verdicts", "seconds", "verdicts_per_hour", "middle_per_hour")
    for one, name in zip(found, names, strict=True):
        ratio, middles = (one[key] / base[key] for key in ("verdicts_per_hour", "middle_per_hour"))
        times = medians(one)
        known = {key: times[key] / value for key, value in medians(base).items() if value > SHORT_MS and key in times}
        off = sorted(abs(value - 1) for value in known.values())
        within = sum(value <= 0.01 for value in off)
        print(name, {key: one[key] for key in keys}, f"{ratio:.2f}x whole, {middles:.2f}x in the middle")
        print(f"  {one['busy_share']:.0%} busy, {one['statuses']}, killed: {one['killed']}")
        if off:
            typical = statistics.median(known.values())
            print(f"  times: {within} of {len(off)} within 1 %, median ratio {typical:.4f}, largest {off[-1]:.1%}")


if __name__ == "__main__":
    main()
