"""What a campaign is: tasks by strategies by repeats, under one budget.

Knows the records, how a configuration file names them, and the seed and folder of every run. Does not know whether a
task or a strategy exists (`engine.campaign_plan`), files (`store.campaigns`) or how runs are carried out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pike.core.config import RunConfig, StrategyConfig, merge
from pike.core.errors import UserError
from pike.core.rng import stream

QUERY_CUTS = (10, 50, 100, 300)
USD_CUTS = (0.5, 1.0, 5.0, 10.0, 25.0, 50.0)


@dataclass(frozen=True, slots=True)
class CampaignConfig:
    """The table `[campaign]` of a configuration file.

    Attributes:
        tasks: tasks as for a run (a file, `SUITE/ID`, `package.module:callable`), or names of suites.
        presets: strategies: names of presets or of `[strategies.NAME]`, or tables with `base`, the options that differ
            from it and, if the base takes part too, a `name`.
        repeats: runs of each strategy on each task; each repeat has its own seed.
        concurrency: runs open at once, which bounds the memory; `engine.concurrency` is the steps in flight of each.
        seed: the seed from which every run's seed is derived.
        usd: the most money over all runs, None for no limit; `budget.usd` is the limit of each run.
        queries: the most queries over all runs, None for no limit; `budget.queries` is the limit of each run.
        max_hours: stop asking after so many hours of running, None for no limit.
        query_cuts: where the figures are taken, in queries of a run.
        usd_cuts: where the figures are taken, in money of a run.
    """

    tasks: tuple[str, ...] = ()
    presets: tuple[Any, ...] = ()
    repeats: int = 1
    concurrency: int = 4
    seed: int = 0
    usd: float | None = None
    queries: int | None = None
    max_hours: float | None = None
    query_cuts: tuple[int, ...] = QUERY_CUTS
    usd_cuts: tuple[float, ...] = USD_CUTS


@dataclass(frozen=True, slots=True)
class Contender:
    """A strategy that takes part, by the name under which its figures stand."""

    name: str
    strategy: StrategyConfig


@dataclass(frozen=True, slots=True)
class CampaignTask:
    """A task that takes part.

    Attributes:
        name: as people read it and as seeds are derived from.
        target: what it is resolved from; absolute where it is a file, so that a resume finds it from anywhere.
    """

    name: str
    target: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a campaign.

    Attributes:
        task: its task.
        contender: its strategy.
        repeat: from 0.
        folder: the name of its folder.
        run_seed: the seed of its random streams.
    """

    task: CampaignTask
    contender: Contender
    repeat: int
    folder: str
    run_seed: int

    @property
    def label(self) -> str:
        """What people read: `demo/resnet18, pike-b, repeat 1`."""
        return f"{self.task.name}, {self.contender.name}, repeat {self.repeat + 1}"


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """Everything that decides a campaign, written before its first run.

    Attributes:
        campaign: the table as it was given.
        run: the configuration that all runs share.
        tasks: the tasks, suites expanded, in order.
        contenders: the strategies, in order.
        pike_version: the version that began it.
    """

    campaign: CampaignConfig
    run: RunConfig
    tasks: tuple[CampaignTask, ...]
    contenders: tuple[Contender, ...]
    pike_version: str

    def cells(self) -> tuple[Cell, ...]:
        """Every run; the runs of one task follow each other, so that its model is loaded once."""
        return tuple(
            Cell(
                task, contender, repeat, _folder(task.name, contender.name, repeat), self._seed(task, contender, repeat)
            )
            for repeat in range(self.campaign.repeats)
            for task in self.tasks
            for contender in self.contenders
        )

    def config_of(self, cell: Cell) -> RunConfig:
        """The configuration of one run."""
        run = self.run
        engine = dataclasses.replace(run.engine, run_seed=cell.run_seed)
        return dataclasses.replace(run, task=cell.task.name, strategy=cell.contender.strategy, engine=engine)

    def _seed(self, task: CampaignTask, contender: Contender, repeat: int) -> int:
        name = f"campaign run {task.name} {contender.name} {repeat}"
        return stream(self.campaign.seed, name).getrandbits(31)


@dataclass(frozen=True, slots=True)
class CampaignFile:
    """A campaign's configuration as it is put together from layers.

    Attributes:
        campaign: the table `[campaign]`.
        run: everything else, as for a single run.
    """

    campaign: CampaignConfig = field(default_factory=CampaignConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def put(self, layer: Mapping[str, Any]) -> CampaignFile:
        """The same with a layer (a parsed file, a setting) over it.

        Raises:
            UserError: a key is unknown or a value has the wrong type.
        """
        rest = dict(layer)
        campaign = rest.pop("campaign", {})
        if not isinstance(campaign, Mapping):
            raise UserError(f"Setting 'campaign' is a table of settings, not {campaign!r}")
        return CampaignFile(merge(self.campaign, campaign, "campaign."), merge(self.run, rest))


def contenders_of(file: CampaignFile) -> tuple[Contender, ...]:
    """The strategies that a configuration names, in order.

    Raises:
        UserError: there is none, one is named twice, or one is neither a name nor a usable table.
    """
    if not file.campaign.presets:
        raise UserError('The campaign has no strategies: set campaign.presets, for example presets = ["pike-b"]')
    found = tuple(map(_contender, file.campaign.presets))
    names = [contender.name for contender in found]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"The campaign names the strategy '{name}' twice: give each its own name")
    return found


def _contender(given: Any) -> Contender:
    if isinstance(given, str):
        return Contender(given, StrategyConfig(given))
    if not isinstance(given, Mapping) or not isinstance(given.get("base"), str):
        raise UserError(
            f"Setting 'campaign.presets' cannot hold {given!r}: give names of strategies, or tables such as "
            '{name = "mine", base = "pike-b", fix_attempts = 2}'
        )
    name = str(given.get("name", given["base"]))
    options = {key: value for key, value in given.items() if key not in ("name", "base")}
    return Contender(name, StrategyConfig(given["base"], options, name))


def check(config: CampaignConfig) -> None:
    """Refuse numbers that make no sense.

    Raises:
        UserError: naming the setting and the least it can be.
    """
    for name, least in (("repeats", 1), ("concurrency", 1), ("usd", 0), ("queries", 0), ("max_hours", 0)):
        value = getattr(config, name)
        if value is not None and value < least:
            raise UserError(f"Setting 'campaign.{name}' must be at least {least}, not {value}")
    for name in ("query_cuts", "usd_cuts"):
        cuts = getattr(config, name)
        if any(cut <= 0 for cut in cuts) or list(cuts) != sorted(set(cuts)):
            raise UserError(f"Setting 'campaign.{name}' must be rising numbers above 0, not {list(cuts)}")
    if not config.tasks:
        raise UserError('The campaign has no tasks: set campaign.tasks, for example tasks = ["demo/gpt_block"]')


def _folder(task: str, contender: str, repeat: int) -> str:
    """A name for people that is a file name everywhere; the digest keeps different names apart."""
    digest = hashlib.sha256(f"{task}\n{contender}".encode()).hexdigest()[:6]
    return f"{_slug(task)[-60:]}--{_slug(contender)[-60:]}--{repeat + 1}-{digest}"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.") or "x"
