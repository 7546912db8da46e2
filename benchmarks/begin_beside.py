"""Begins a campaign's runs from what earlier runs of the same tasks measured, on a machine without their device.

Run `python benchmarks/begin_beside.py FILE.toml EARLIER OUT`: FILE is a campaign whose models are `by-hand`, EARLIER a
campaign's folder or one of the archives in `benchmarks/gallery`, OUT the new campaign's folder. Each run takes the
device, the original's time and its profile from an earlier run of its task on the same terms, and that run's recipe
seeds if its strategy starts from recipes; so `pike ask OUT --all` has prompts at once. Nothing is measured.
"""

import sys
import tarfile
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pike
from pike import store
from pike.agents import prompts_version
from pike.api.campaigns import campaign_file
from pike.core.events import Admitted, RunStarted
from pike.engine.run.configuration import resolve
from pike.engine.schedule.plan import make_plan
from pike.store import campaigns
from pike.tasks import resolve as task_named

Earlier = tuple[RunStarted, list[Admitted]]


def main(file: str, earlier: str, out: str) -> None:
    """Write the plan and the beginning of each run's journal."""
    plan, folder = make_plan(campaign_file(file)), Path(out)
    known = {(start.task.id, start.config.evaluate): (start, seeds) for start, seeds in beginnings(Path(earlier))}
    begun = {}
    for cell in plan.cells():
        config = resolve(plan.config_of(cell))
        task = task_named(cell.task.name)
        if (task.id, config.evaluate) not in known:
            sys.exit(f"{earlier} holds no run of {task.id} on the terms of {file}: begin that one where the device is")
        start, seeds = known[task.id, config.evaluate]
        if start.task.source != task.source:
            sys.exit(f"The task {task.id} has changed since {earlier}")
        profile = start.original_profile if config.prompt.profile else None
        version = prompts_version(config.prompt.folder) if config.llm.asks_models else ""
        first = replace(
            start, task=task, config=config, pike_version=pike.__version__, prompts=version, original_profile=profile
        )
        begun[cell.folder] = [first, *(seeds if config.llm.seed_recipes else [])]
    campaigns.write_plan(folder, plan)
    for name, events in begun.items():
        with store.Journal.create(campaigns.run_folder(folder, name), time.time) as journal:
            for event in events:
                journal.append(event)
        print(name)


def beginnings(path: Path) -> list[Earlier]:
    """How the runs of a campaign or an archive began, with their seeds."""
    with tempfile.TemporaryDirectory() as scratch:
        if path.is_file():
            with tarfile.open(path) as packed:
                packed.extractall(scratch, filter="data")
        found = []
        for run in (Path(scratch) if path.is_file() else path).rglob("runs/*"):
            events = [entry.event for entry in store.read(run)]
            assert isinstance(events[0], RunStarted)
            found.append((events[0], [event for event in events if isinstance(event, Admitted)]))
        return found


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
