"""Winners of the gallery beside eager, a CUDA graph, every compile way and the best known composition, in one session.

Run `python benchmarks/gallery/verify.py OUT.jsonl [NAME ...] [--device cuda:0]` where the GPU is lent for too short a
time for `pike gallery verify --recipes`, which searches again. The composition is the fastest that was measured before
at this precision or a stricter one: a winner in `benchmarks/results` or of the zoo's searches, or a recipe seed of the
campaigns in this folder.
OUT gets the lines of `pike gallery verify --out`; what is in it is not measured again.
"""

import argparse
import asyncio
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from pike import store
from pike.core.comparison.results import Result
from pike.core.events import Admitted, RunStarted
from pike.core.settings.config import EngineConfig
from pike.core.verdict.evaluation import EvaluateOptions, Precision
from pike.engine import LocalExecutor
from pike.engine.output import originals
from pike.engine.tools.gallery import GalleryEntry, chosen, keep, measure
from pike.recipes import compose
from pike.recipes.search.explored import problem_of

HERE = Path(__file__).parent
RESULTS = sorted(
    [*HERE.parent.glob("results/h100-*/level*.jsonl*"), *HERE.parent.glob("trials/h100-*/zoo_*_developed.*")]
)
CAMPAIGNS = (HERE / "half.tar.xz", HERE / "same.tar.xz", HERE / "more.tar.xz")
MOST_SECONDS = 3.0
BUILD_SECONDS = 400.0
"""The limit of each: two ways took more than their 180 s to build where three verifications shared 16 CPUs."""


@dataclass(frozen=True)
class Composition:
    """Recipes that were measured before; `source` is empty where their file is not kept."""

    ms: float
    recipes: tuple[str, ...]
    source: str = ""


Known = dict[tuple[str, str], list[Composition]]


def main() -> None:
    """Measure each winner that OUT does not hold."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--device", default="cuda")
    given = arguments.parse_args()
    done = {one.task for one in store.results_in([given.out])} if given.out.exists() else set()
    known: Known = {}
    for task, precision, composition in (*accumulated(), *seeds()):
        known.setdefault((task, precision), []).append(composition)
    for entry in chosen(given.names):
        if entry.task.id not in done:
            results = asyncio.run(measured(entry, given.device, known))
            keep(given.out, results)
            for one in results:
                said = (one.evaluation.candidate_ms, one.evaluation.status.value) if one.evaluation else ()
                print(entry.name, one.contender.name, *one.recipes, *said, flush=True)


async def measured(entry: GalleryEntry, device: str, known: Known) -> tuple[Result, ...]:
    """The results of one winner and of all that stands beside it."""
    terms = {"max_timing_seconds": MOST_SECONDS, "timeout_seconds": BUILD_SECONDS}
    options = replace(entry.found.options, device=device, **terms)
    began = time.monotonic()

    def on_stage(stage: str) -> None:
        print(f"{entry.name}: {stage} at {time.monotonic() - began:.0f} s", flush=True)

    async with aclosing(LocalExecutor(EngineConfig(judges=1))) as executor:
        facts = await executor.facts(device)
        entry.require(facts)
        reference = originals.load(entry.task).reference
        problem = problem_of(reference, facts, options)
        allowed = list(Precision)[: list(Precision).index(options.precision) + 1]  # each allows what those before it do
        mine = [one for each in allowed for one in known.get((entry.task.id, each.value), [])]
        for one in sorted(mine, key=lambda one: one.ms):
            made = compose(entry.task, problem, one.recipes) if not one.source else None
            if source := one.source or (made.source if made else ""):
                return await measure(entry, executor, options, (source, one.recipes), on_stage)
            print(f"{entry.name}: {made.failure if made else ''}")
        return await measure(entry, executor, options, on_stage=on_stage)


def accumulated() -> Iterator[tuple[str, str, Composition]]:
    """The compositions of the committed results."""
    for one in store.results_in(RESULTS):
        if one.recipes and one.evaluation and one.evaluation.valid and one.evaluation.candidate_ms:
            yield one.task, one.precision.value, Composition(one.evaluation.candidate_ms, one.recipes)


def seeds() -> Iterator[tuple[str, str, Composition]]:
    """The recipe seeds of the campaigns."""
    with tempfile.TemporaryDirectory() as scratch:
        for archive in CAMPAIGNS:
            with tarfile.open(archive) as packed:
                packed.extractall(scratch, filter="data")
        for run in sorted(Path(scratch).glob("*/runs/*")):
            events = [entry.event for entry in store.read(run)]
            begun = next(event for event in events if isinstance(event, RunStarted))
            options: EvaluateOptions = begun.config.evaluate
            for event in events:
                if isinstance(event, Admitted) and event.evaluation.valid and event.evaluation.candidate_ms:
                    candidate = event.candidate
                    composition = Composition(event.evaluation.candidate_ms, candidate.recipes, candidate.source)
                    yield begun.task.id, options.precision.value, composition


if __name__ == "__main__":
    main()
