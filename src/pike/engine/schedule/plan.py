"""What a suite or campaign will carry out, checked before anything is spent.

Does not look into single tasks: one that cannot be loaded fails when its turn comes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pike
from pike import llm, tasks
from pike.core.comparison.campaign import CampaignFile, CampaignPlan, CampaignTask, Cell, check
from pike.core.comparison.results import Result
from pike.core.errors import UserError
from pike.core.settings.config import RunConfig
from pike.core.step import Role
from pike.core.task import Task
from pike.engine.run.agents import Connect, assemble
from pike.engine.run.external_answers import external_roles
from pike.engine.schedule.contenders.naming import contenders_named
from pike.llm import REPLAY
from pike.store import campaigns
from pike.tasks.variants import SUFFIX


def make_plan(file: CampaignFile, connect: Connect = llm.connect) -> CampaignPlan:
    """The plan that a configuration stands for.

    Raises:
        UserError: a contender, an option, a model or a number cannot be used, a task is named
            twice, or not one of the tasks is found.
    """
    check(file.campaign)
    found = campaign_tasks(file.campaign.tasks)
    _require_some(found)
    contenders = contenders_named(file.campaign.contenders, file.run.strategies)
    plan = CampaignPlan(file.campaign, file.run, found, contenders, pike.__version__)
    _require_models(plan, connect)
    return plan


def task_of(named: CampaignTask, folder: Path | None = None) -> Task:
    """The task that takes part.

    Args:
        named: the task as the plan names it.
        folder: where the module of a `package.module:callable` is kept; the user's cache by
            default.

    Raises:
        UserError: it is not found or cannot be used.
    """
    task = tasks.resolve(named.target, folder=folder)
    # A file does not know the suite that it was named by.
    return replace(task, id=named.name) if Path(named.target.removesuffix(SUFFIX)).is_file() else task


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


def recorded(campaign: Path, cell: Cell) -> Result:
    """The result of a fixed candidate's counterpart in another campaign.

    Raises:
        UserError: that campaign has no such result.
    """
    found = campaigns.results_of(campaign).get(cell.folder)
    if found is None:
        raise UserError(f"The campaign in {campaign} has no result of {cell.label}")
    return found


def campaign_tasks(names: Sequence[str]) -> tuple[CampaignTask, ...]:
    """The tasks that are named, suites expanded.

    Raises:
        UserError: one is named twice.
    """
    found: dict[str, CampaignTask] = {}
    for task in (task for name in names for task in _expanded(name)):
        if task.name in found:
            raise UserError(f"The task '{task.name}' is named twice: use campaign.repeats to repeat runs")
        found[task.name] = task
    return tuple(found.values())


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
    raise UserError(f"There is no usable task: {reasons[0]}")


def _require_models(plan: CampaignPlan, connect: Connect) -> None:
    """Check names, prices and the models that a strategy needs of its own; nothing is sent."""
    if replays(plan.run) is not None:
        return
    limits = [limit for limit in (plan.run.budget.usd, plan.campaign.usd) if limit is not None]
    budget = replace(plan.run.budget, usd=min(limits, default=None))
    for contender in plan.contenders:
        if not contender.searches:
            continue
        config = contender.configure(plan.run)
        if external_roles(config.llm) and (plan.campaign.usd or plan.campaign.queries or plan.campaign.max_hours):
            raise UserError(
                "Runs that are answered by hand go on outside the campaign and cannot keep its common budget: leave "
                "queries, usd and max_hours out of [campaign], and give each run its own under [budget]"
            )
        assemble(replace(config, budget=budget), connect)
