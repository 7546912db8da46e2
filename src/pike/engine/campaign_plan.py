"""What a campaign will run, checked before anything is spent.

Knows how suites become tasks and that strategies, options and models must exist. Does not look into single tasks: one
that cannot be loaded is that task's failure, when its turn comes. Does not know how runs take turns (`campaign`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pike
from pike import llm, search, tasks
from pike.core.campaign import CampaignFile, CampaignPlan, CampaignTask, Cell, Contender, check, contenders_of
from pike.core.config import RunConfig
from pike.core.errors import UserError
from pike.core.step import Role
from pike.core.task import Task
from pike.engine.crew import Connect, assemble
from pike.engine.hand import hand_roles
from pike.engine.models import REPLAY
from pike.store import campaigns


def make_plan(file: CampaignFile, connect: Connect = llm.connect) -> CampaignPlan:
    """The plan that a configuration stands for.

    Raises:
        UserError: a strategy, an option, a model or a number cannot be used, a task is named twice, or not one
            of the tasks is found.
    """
    check(file.campaign)
    found = tuple(_tasks(file.campaign.tasks))
    _require_some(found)
    named = file.run.strategies
    contenders = tuple(replace(one, strategy=search.resolve(one.strategy, named)) for one in contenders_of(file))
    _require_models(file, contenders, connect)
    return CampaignPlan(file.campaign, file.run, found, contenders, pike.__version__)


def task_of(cell: Cell, folder: Path) -> Task:
    """The task of a run; `folder` is where the module of a `package.module:callable` is kept.

    Raises:
        UserError: it is not found or cannot be used.
    """
    return tasks.resolve(cell.task.target, folder=folder)


def replays(config: RunConfig) -> Path | None:
    """The campaign that is replayed, None if none is.

    Raises:
        UserError: there is none in that folder.
    """
    name = config.llm.models(Role.OPTIMISE)[0]
    if not name.startswith(REPLAY):
        return None
    folder = Path(name.removeprefix(REPLAY))
    if not campaigns.is_campaign(folder):
        raise UserError(f"'{name}' names no campaign: give replay: and the folder of a campaign")
    return folder


def replaying(config: RunConfig, campaign: Path, cell: Cell) -> RunConfig:
    """The configuration of a run that replays its counterpart in another campaign.

    Raises:
        UserError: that campaign has no such run.
    """
    folder = campaigns.run_folder(campaign, cell.folder)
    if not (folder / "journal.sqlite").is_file():
        reason = campaigns.read_failure(campaign, cell.folder)
        raise UserError(reason or f"The campaign in {campaign} has no run of {cell.label}")
    # The recording answers every role, whatever models the file gives them.
    models = replace(config.llm, coa=f"{REPLAY}{folder}", efa="", iba="", plan="", code="", debug="")
    return replace(config, llm=models)


def _tasks(names: tuple[str, ...]) -> Iterator[CampaignTask]:
    seen: set[str] = set()
    for name in names:
        for task in _expanded(name):
            if task.name in seen:
                raise UserError(f"The campaign has the task '{task.name}' twice: use campaign.repeats to repeat runs")
            seen.add(task.name)
            yield task


def _expanded(name: str) -> Iterator[CampaignTask]:
    path = Path(name).expanduser()
    if path.is_file():
        yield CampaignTask(path.stem, str(path.resolve()))
    elif (suite := tasks.suite_of(name)) is not None:
        yield from (CampaignTask(entry.name, entry.address) for entry in suite.entries)
    else:
        yield CampaignTask(name, name)


def _require_some(found: tuple[CampaignTask, ...]) -> None:
    """Refuse a campaign none of whose tasks is found; the first reason is as good as any."""
    reasons = []
    for task in found:
        if ":" in task.target:
            return
        try:
            tasks.resolve(task.target)
        except UserError as error:
            reasons.append(error)
        else:
            return
    raise UserError(f"The campaign has no usable task: {reasons[0]}")


def _require_models(file: CampaignFile, contenders: tuple[Contender, ...], connect: Connect) -> None:
    """Check names, prices and the models that a strategy needs of its own; nothing is sent."""
    if replays(file.run) is not None:
        return
    limits = [limit for limit in (file.run.budget.usd, file.campaign.usd) if limit is not None]
    budget = replace(file.run.budget, usd=min(limits, default=None))
    if hand_roles(file.run.llm):
        raise UserError("A campaign cannot wait for answers by hand: give it a model, or play a single run")
    for contender in contenders:
        assemble(replace(file.run, strategy=contender.strategy, budget=budget), connect)
