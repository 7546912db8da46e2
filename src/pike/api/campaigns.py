"""The verb for campaigns: many runs under one budget.

Knows how a configuration is put together and where a campaign goes. Does not know how it is carried out (`engine`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike import tasks
from pike.api.options import check_settings
from pike.api.verbs import new_folder, run_to_end
from pike.core.campaign import CampaignFile
from pike.core.config import parse_setting
from pike.core.errors import UserError
from pike.engine.campaign import CampaignWiring, is_campaign, resume_campaign, start_campaign, write_figures
from pike.engine.campaign_plan import make_plan
from pike.engine.campaign_progress import CampaignObserver
from pike.engine.estimate import estimate
from pike.engine.executors import Executor
from pike.report.campaign import CampaignFigures


@dataclass(frozen=True, slots=True)
class Campaign:
    """What `campaign` brought.

    Attributes:
        folder: the campaign's folder: `plan.json`, `campaign.json`, and each run's folder under `runs/`.
        figures: what `campaign.json` holds.
    """

    folder: Path
    figures: CampaignFigures


@dataclass(frozen=True, slots=True)
class Shared:
    """Parts that the runs of a campaign share, where they are not the real ones.

    Attributes:
        executor: who judges, for example `pike.engine.InstantExecutor`.
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

    Args:
        config: a TOML file, or what one holds, with a table `[campaign]`; the rest is as for a run.
        out: the campaign's folder, by default a new one under `runs/`.
        resume: the folder of a campaign to carry on, instead of `config`.
        llm: the model of the optimising agent, or several; `replay:DIR` repeats the campaign in that folder.
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
        return Campaign(folder, run_to_end(resume_campaign(folder, wiring)))
    plan = make_plan(campaign_file(config, llm=llm, settings=settings))
    stem = Path(config).stem if isinstance(config, str | Path) else "campaign"
    folder = (Path(out) if out is not None else new_folder(stem)).resolve()
    return Campaign(folder, run_to_end(start_campaign(plan, folder, wiring)))


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
    layer = config if isinstance(config, Mapping) else _read(Path(config))
    file = CampaignFile().put(layer)
    if llm:
        file = file.put({"llm": {"coa": llm}})
    for setting in [settings] if isinstance(settings, str) else settings:
        file = file.put(parse_setting(setting))
    check_settings(file.run)
    return file


def campaign_figures(folder: str | Path) -> CampaignFigures:
    """Compute a campaign's figures from its journals, finished or not, and write `campaign.json`.

    Raises:
        UserError: there is no campaign in `folder`.
    """
    return write_figures(Path(folder))


def campaign_usd(file: CampaignFile) -> float | None:
    """The most that a campaign is expected to spend, None if a price is unknown.

    Raises:
        UserError: as `campaign`.
    """
    plan = make_plan(file)
    total = 0.0
    for cell in plan.cells():
        if cell.repeat:
            continue
        try:
            expected = estimate(tasks.resolve(cell.task.target), plan.config_of(cell)).usd
        except UserError:
            # A task that cannot be loaded spends nothing; the campaign lists it.
            continue
        if expected is None:
            return None
        total += expected * plan.campaign.repeats
    return total if plan.campaign.usd is None else min(total, plan.campaign.usd)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"The configuration file {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"The configuration file {path} is no TOML: {error}") from error


__all__ = ["Campaign", "Shared", "campaign", "campaign_figures", "campaign_file", "campaign_usd", "is_campaign"]
