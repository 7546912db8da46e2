"""A campaign whose journals come from the simulator: real strategies, simulated models, a simulated clock.

Everything that figures read is in it: repairs, prices, several models, profiles, stages, baselines, repeats.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pike import search, simulate
from pike.core.comparison.campaign import CampaignConfig, CampaignPlan, CampaignTask, Cell
from pike.core.comparison.contender import Contender, ContenderKind
from pike.core.comparison.results import Provenance, Result
from pike.core.device import DeviceFacts
from pike.core.events import (
    Asked,
    Event,
    Finished,
    Judged,
    Proposed,
    QueryAnswered,
    QuerySent,
    RunStarted,
    Stopped,
    Told,
)
from pike.core.query import Answer, Query
from pike.core.settings.budget import Budget
from pike.core.settings.config import LlmConfig, RunConfig, StrategyConfig
from pike.core.step import Role, Step
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, Status, Timing
from pike.core.verdict.profile import Ceilings, Hotspot, Profile
from pike.simulate import Team, World, fitted
from pike.store import Journal, append_result, campaigns

BEGAN = 1_700_000_000.0
FACTS = DeviceFacts("cuda:0", "Simulated GPU", versions=(("torch", "2.9"),))
ORIGINAL = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x.relu() + 1\n"
KERNEL = '_CUDA = """\n__global__ void k(float* x) { x[0] += 1; }\n"""\n'
PRELUDES = ("", "import triton\n", KERNEL, "FAST = torch.compile\n", "GRAPH = torch.cuda.CUDAGraph\n")
MODELS = {Role.OPTIMISE: ("strong", "cheap")}


@dataclass(frozen=True)
class Scale:
    tasks: tuple[str, ...] = (
        "level3-pike/1_MLP",
        "level3-pike/4_LeNet5",
        "level3-pike/9_ResNet18",
        "level3-pike/31_VisionAttention",
    )
    presets: tuple[str, ...] = ("pike-b", "pike-b:no-efa", "stark")
    repeats: int = 2
    queries: int = 24


def write_campaign(folder: Path, scale: Scale = Scale()) -> Path:
    plan = plan_of(scale)
    campaigns.write_plan(folder, plan)
    simulated = dict(zip(scale.tasks, simulate.suite(fitted(), len(scale.tasks)), strict=True))
    for cell in plan.cells():
        if cell.contender.searches:
            write_run(campaigns.run_folder(folder, cell.folder), cell, plan, simulated[cell.task.name])
        else:
            append_result(folder / "results-simulated.jsonl", fixed(cell, scale.tasks.index(cell.task.name)))
    return folder


def plan_of(scale: Scale) -> CampaignPlan:
    contenders = [Contender(name, ContenderKind.RUN, strategy=StrategyConfig(name)) for name in scale.presets]
    contenders.append(Contender("compile", ContenderKind.BASELINE))
    run = RunConfig(llm=LlmConfig(coa="scripted:none.json"), budget=Budget(scale.queries))
    config = CampaignConfig(tasks=scale.tasks, contenders=scale.presets, repeats=scale.repeats)
    tasks = tuple(CampaignTask(name, name) for name in scale.tasks)
    return CampaignPlan(config, run, tasks, tuple(contenders), "0.1.0")


def fixed(cell: Cell, index: int) -> Result:
    place = Provenance(FACTS, EvaluateOptions(), Effort.FINAL, date="2026-01-01T00:00:00+00:00")
    return Result(
        cell.task.name,
        "",
        cell.precision,
        cell.contender,
        place,
        evaluation=valid(1.1 + 0.3 * index),
        folder=cell.folder,
    )


def valid(speedup: float) -> Evaluation:
    timing = Timing(10.0, 10.0 / speedup, speedup, (0.98 * speedup, 1.02 * speedup), 12, 240, 0.0)
    return Evaluation(Status.VALID, timing=timing)


def write_run(folder: Path, cell: Cell, plan: CampaignPlan, task: simulate.SimulatedTask) -> None:
    events = list(run_events(cell, plan, task))
    now = [BEGAN]
    with Journal.create(folder, lambda: now[0]) as journal:
        for seconds, event in events:
            now[0] = BEGAN + seconds
            journal.append(event, durable=False)


def run_events(cell: Cell, plan: CampaignPlan, task: simulate.SimulatedTask) -> Iterator[tuple[float, Event]]:
    """The events of a run with their seconds; steps in flight overlap, as in a real run."""
    config = plan.config_of(cell)
    yield 0.0, RunStarted(task_of(cell), config, FACTS, "0.1.0", 10.0, original_profile=profile(10.0, "gemm_fp32"))
    strategy = search.make(config.strategy, config.budget, cell.run_seed)
    if config.strategy.preset == "pike-b":
        strategy = search.over_models(strategy, MODELS, cell.repeat)
    parameters = fitted()
    named = {model.name: model for model in (parameters.strong, parameters.cheap)}
    world = World(parameters, task, Team(parameters.strong, {}, named), cell.repeat)
    now, flying, count = 0.0, list[tuple[float, int, list[tuple[float, Event]], object]](), 0
    pending: list[tuple[float, int, Event]] = []
    while not strategy.done:
        while len(flying) < 6 and (step := strategy.ask()) is not None:
            answered = world.answer(step)
            moves, outcome = moves_of(step, answered, now, world)
            count += 1
            heapq.heappush(flying, (now + answered.seconds, count, moves, outcome))
            pending += [(at, 1000 * count + place, event) for place, (at, event) in enumerate(moves)]
        now, _, _, outcome = heapq.heappop(flying)
        strategy.tell(outcome)
        due = sorted(one for one in pending if one[0] <= now)
        pending = [one for one in pending if one[0] > now]
        yield from ((at, event) for at, _, event in due)
    yield now, Stopped("queries")
    yield from finals(world, now)


def moves_of(step: Step, answered, now: float, world: World) -> tuple[list[tuple[float, Event]], object]:
    """What is journalled of a step; three fifths of its time the model thinks, then the judge works."""
    outcome, end = answered.outcome, now + answered.seconds
    model = step.model or "strong"
    query = Query(step.id, step.role, "", "", step.temperature, step.max_output_tokens)
    asked = now + 0.6 * answered.seconds
    moves: list[tuple[float, Event]] = [
        (now, Asked(step)),
        (now, QuerySent(query, 1, model, 1.0, 4000)),
        (
            asked,
            QueryAnswered(step.id, 1, Answer("", model=model, input_tokens=1000, output_tokens=500, usd=outcome.usd)),
        ),
    ]
    if outcome.candidate is None:
        return [*moves, (end, Told(step.id, ideas=outcome.ideas, text=outcome.text))], outcome
    rest = end - asked
    stages = (("lock-wait", 0.1), ("build", 0.3), ("load", 0.05), ("correct", 0.25), ("time", 0.2))
    candidate = replace(outcome.candidate, source=source(world, outcome.candidate.id))
    evaluation = replace(outcome.evaluation, seconds=tuple((name, part * rest) for name, part in stages))
    outcome = replace(outcome, candidate=candidate, evaluation=evaluation)
    moves += [
        (asked, Proposed(step.id, candidate)),
        (end, Judged(candidate.id, evaluation)),
        (end, Told(step.id, candidate.id)),
    ]
    return moves, outcome


def source(world: World, name: str) -> str:
    """A program whose length grows with its gain, and whose lines tell its approach."""
    program = world.programs[name]
    approach = int(1000 * program.plateau) % 97
    lines = [f"        x = x * {approach + at % (3 + approach % 5)}" for at in range(6 + int(12 * abs(program.gain)))]
    body = "\n".join(["class ModelNew(torch.nn.Module):", "    def forward(self, x):", *lines, "        return x", ""])
    return f"import torch\n{PRELUDES[approach % len(PRELUDES)]}# {name}\n\n\n{body}"


def finals(world: World, now: float) -> Iterator[tuple[float, Event]]:
    """The three that are best in truth are measured again."""
    good = sorted(
        (name for name, one in world.programs.items() if one.valid and name != "original"),
        key=lambda name: -world.programs[name].gain,
    )[:3]
    best = max(good, key=world.final, default=None)
    for place, name in enumerate(good):
        verdict = valid(math.exp(world.final(name)))
        shown = profile(verdict.candidate_ms or 1.0, "triton_fused") if name == best else None
        yield (
            now + 5.0 * (place + 1),
            Judged(name, replace(verdict, profile=shown, seconds=(("time", 4.0),)), Effort.FINAL),
        )
    yield now + 20.0, Finished(best)


def profile(ms: float, name: str) -> Profile:
    hotspots = (
        Hotspot(f"{name}_kernel", 0.55, 4.0),
        Hotspot("at::native::elementwise_kernel", 0.3, 9.0),
        Hotspot("my_kernel", 0.1, 1.0),
    )
    work, moved = 4_000_000_000, 60_000_000
    ceilings = Ceilings(2.0e12, 4.0e13, "simulated")
    return Profile(
        "simulated", "simulated", hotspots, 0.9, 14.0, 0, work, moved, moved / ms * 1e3, work / ms * 1e3, ceilings
    )


def task_of(cell: Cell) -> Task:
    return Task(cell.task.name, cell.task.name, TaskKind.SOURCE, ORIGINAL, "model.py")
