"""The verb for campaigns: contenders on tasks under one budget.

Knows how a configuration is put together and where it goes. Does not carry a campaign out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike import tasks
from pike.api.options import check_settings, read_toml
from pike.api.targets import new_folder
from pike.api.waiting import kept_warnings, run_to_end
from pike.core.comparison.campaign import CampaignFile, CampaignPlan
from pike.core.errors import UserError
from pike.core.settings.merging import parse_setting
from pike.engine.executors.contract import Executor
from pike.engine.schedule.campaign import CampaignWiring, follow_campaign, resume_campaign, start_campaign
from pike.engine.schedule.campaign import is_campaign as is_campaign
from pike.engine.schedule.campaign import write_figures as write_figures
from pike.engine.schedule.plan import make_plan
from pike.engine.schedule.progress import CampaignObserver
from pike.engine.state.models import require_keys
from pike.engine.tools.estimate import estimate
from pike.engine.tools.slurm import Allocation as Allocation
from pike.engine.tools.slurm import job_name as job_name
from pike.engine.tools.slurm import submit_script, write_script
from pike.reporting.campaign import CampaignFigures, summarise_campaign


@dataclass(frozen=True, slots=True)
class Campaign:
    """What `campaign` brought.

    Attributes:
        folder: the campaign's folder: `plan.json`, `campaign.json`, and each run's folder under
            `runs/`.
        figures: what `campaign.json` holds.
    """

    folder: Path
    figures: CampaignFigures


@dataclass(frozen=True, slots=True)
class Shared:
    """Parts that the runs of a campaign share, where they are not the real ones.

    Attributes:
        executor: judges for all, for example `pike.engine.InstantExecutor`.
        observer: told how the campaign goes.
    """

    executor: Executor | None = None
    observer: CampaignObserver | None = None


def campaign(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    llm: str | Sequence[str] | None = None,
    settings: Sequence[str] = (),
    shared: Shared | None = None,
) -> Campaign:
    """Compare strategies on tasks under one budget, or carry on where that stopped.

    >>> study = pike.campaign("study.toml", out="runs/study")  # doctest: +SKIP
    >>> [row.contender for row in study.figures.standings]  # doctest: +SKIP
    ['pike-b', 'best-of-n']

    Args:
        config: a TOML file, or what one holds, with a table `[campaign]`; the rest is as for a run.
        out: the campaign's folder, by default a new one under `runs/`.
        resume: the folder of a campaign to carry on, instead of `config`.
        llm: the model of the optimising agent, or several; `replay:DIR` repeats the campaign in
            that folder.
        settings: `a.b=c` settings, which win over everything else.
        shared: parts of it that are not the real ones.

    Raises:
        UserError: the configuration, a strategy or a model cannot be used.
        StoreError: the plan or the figures cannot be written; the campaign can be resumed.
    """
    shared = shared or Shared()
    wiring = CampaignWiring(executor=shared.executor, observer=shared.observer)
    if resume is not None:
        if config is not None or out is not None or llm or settings:
            raise UserError("A campaign that is resumed goes on as it began: give its folder and no other option")
        folder = Path(resume).resolve()
        with kept_warnings(folder):
            return Campaign(folder, run_to_end(resume_campaign(folder, wiring)))
    plan = make_plan(campaign_file(config, llm=llm, settings=settings))
    stem = Path(config).stem if isinstance(config, str | Path) else "campaign"
    folder = (Path(out) if out is not None else new_folder(stem)).resolve()
    with kept_warnings(folder):
        return Campaign(folder, run_to_end(start_campaign(plan, folder, wiring)))


def watch_campaign(folder: Path, observer: CampaignObserver) -> CampaignFigures:
    """Watch a campaign until no process carries it on; one that ended is only read.

    Raises:
        UserError: there is no campaign in the folder.
        StoreError: a journal cannot be read.
    """
    follow_campaign(folder, observer)
    return summarise_campaign(folder)


def campaign_file(
    config: str | Path | Mapping[str, Any] | None,
    *,
    llm: str | Sequence[str] | None = None,
    settings: Sequence[str] = (),
) -> CampaignFile:
    """A campaign's configuration from its layers: the file, then `llm`, then settings.

    Raises:
        UserError: the file cannot be read, a key is unknown, or a value cannot be used.
    """
    if config is None:
        raise UserError("A campaign needs a configuration: give a TOML file with a table [campaign]")
    layer = config if isinstance(config, Mapping) else read_toml(Path(config))
    file = CampaignFile().put(layer)
    if llm:
        file = file.put({"llm": {"coa": llm}})
    for setting in [settings] if isinstance(settings, str) else settings:
        file = file.put(parse_setting(setting))
    check_settings(file.run)
    return file


def campaign_usd(file: CampaignFile) -> float | None:
    """The most that a campaign is expected to spend, None if a price is unknown.

    Raises:
        UserError: as `campaign`.
    """
    return plan_usd(make_plan(file))


def plan_usd(plan: CampaignPlan) -> float | None:
    """The most that the strategies of a plan are expected to spend, None if a price is unknown.

    Raises:
        UserError: a model's key is missing.
    """
    total = 0.0
    for cell in plan.cells():
        models = plan.config_of(cell).llm
        if cell.repeat or not cell.contender.searches_with_models or models.costs_nothing:
            continue
        require_keys(models)
        try:
            expected = estimate(tasks.resolve(cell.task.target), plan.config_of(cell)).usd
        except UserError:
            # A task that cannot be loaded spends nothing; the campaign lists it.
            continue
        if expected is None:
            return None
        total += expected * plan.campaign.repeats
    return total if plan.campaign.usd is None else min(total, plan.campaign.usd)


def slurm_script(
    configs: Sequence[str | Path],
    out: str | Path,
    wanted: Allocation,
    *,
    settings: Sequence[str] = (),
    submit: bool = False,
) -> tuple[Path, str]:
    """Write the script that carries campaigns through as many Slurm jobs as they take, and perhaps send it.

    >>> slurm_script(["study.toml"], "runs", Allocation(4, 4, "4:00:00", 300))  # doctest: +SKIP

    Args:
        configs: TOML files as for `campaign`; they are checked first. Several are an array of jobs.
        out: where the campaigns' folders go; each is called as its file.
        wanted: what each job asks for.
        settings: as for `campaign`, for all of them.
        submit: also send it.

    Returns:
        The script, and the number of the first job, empty if it was not sent.

    Raises:
        UserError: as for `campaign`, or Slurm refuses the script.
        StoreError: the disk refuses.
    """
    for config in configs:
        make_plan(campaign_file(config, settings=(*wanted.settings(), *settings)))
    script = write_script([(Path(one), Path(out) / Path(one).stem) for one in configs], wanted, settings)
    return script, submit_script(script) if submit else ""
