"""What a suite or a campaign is: cells of tasks, contenders, precisions and repeats.

Knows how a file names them, and the seed and folder of every cell. Does not carry them out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pike.core.comparison.contender import Contender
from pike.core.errors import UserError
from pike.core.rng import stream
from pike.core.settings.config import RunConfig
from pike.core.settings.merging import merge
from pike.core.verdict.evaluation import Precision

QUERY_CUTS = (10, 50, 100, 300)
USD_CUTS = (0.5, 1.0, 5.0, 10.0, 25.0, 50.0)


@dataclass(frozen=True, slots=True)
class CampaignConfig:
    """The table `[campaign]` of a configuration file.

    Attributes:
        tasks: tasks as for a run (a file, `SUITE/ID`, `package.module:callable`), or names of
            suites.
        contenders: names of strategies (also `[strategies.NAME]`) and baselines, `recipes`,
            `published:FOLDER`, `winners:PATH` or `run:FOLDER`. A table has such a name as `base`,
            its own `name`, `llm`, `prompts` (a folder) and `precision`, and the options that differ
            from its base.
        repeats: runs of each strategy on each task; each repeat has its own seed.
        precision: the declared arithmetic, one or several; empty for that of `[evaluate]`.
        concurrency: cells open at once, which bounds the memory; `engine.concurrency` is the steps
            in flight of each.
        seed: the seed from which every run's seed is derived.
        usd: the most money over all runs, None for no limit; `budget.usd` is the limit of each run.
        queries: the most queries over all runs, None for no limit; `budget.queries` is the limit of
            each run.
        max_hours: stop asking after so many hours of running, None for no limit.
        query_cuts: where the figures are taken, in queries of a run.
        usd_cuts: where the figures are taken, in money of a run.
    """

    tasks: tuple[str, ...] = ()
    contenders: tuple[Any, ...] = ()
    repeats: int = 1
    precision: tuple[Precision, ...] = ()
    concurrency: int = 4
    seed: int = 0
    usd: float | None = None
    queries: int | None = None
    max_hours: float | None = None
    query_cuts: tuple[int, ...] = QUERY_CUTS
    usd_cuts: tuple[float, ...] = USD_CUTS


@dataclass(frozen=True, slots=True)
class CampaignTask:
    """A task that takes part.

    Attributes:
        name: as people read it and as seeds are derived from.
        target: what it is resolved from; absolute where it is a file, so that a resume finds it
            from anywhere.
    """

    name: str
    target: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One contender on one task at one precision, once.

    Attributes:
        task: its task.
        contender: its contender.
        precision: the declared arithmetic.
        repeat: from 0.
        column: what the contender is called in the table, with the precision where it has several.
        folder: the name of its folder.
        run_seed: the seed of its random streams.
    """

    task: CampaignTask
    contender: Contender
    precision: Precision
    repeat: int
    column: str
    folder: str
    run_seed: int

    @property
    def label(self) -> str:
        """What people read: `demo/resnet18, pike-b, repeat 1`."""
        repeat = f", repeat {self.repeat + 1}" if self.contender.searches else ""
        return f"{self.task.name}, {self.column}{repeat}"


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """Everything that decides a campaign, written before its first run.

    Attributes:
        campaign: the table as it was given.
        run: the configuration that all runs share.
        tasks: the tasks, suites expanded, in order.
        contenders: who takes part, in order.
        pike_version: the version that began it.
    """

    campaign: CampaignConfig
    run: RunConfig
    tasks: tuple[CampaignTask, ...]
    contenders: tuple[Contender, ...]
    pike_version: str

    def cells(self) -> tuple[Cell, ...]:
        """Every cell; those of one task follow each other, so that its model is loaded once.

        A contender with one fixed candidate for each task is measured in the first repeat only.
        """
        return tuple(
            self._cell(task, contender, precision, repeat)
            for repeat in range(self.campaign.repeats)
            for task in self.tasks
            for contender in self.contenders
            if contender.searches or not repeat
            for precision in self.precisions_of(contender)
        )

    def columns(self) -> tuple[str, ...]:
        """What contenders are called in the table, in order."""
        return tuple(self._column(one, precision) for one in self.contenders for precision in self.precisions_of(one))

    def precisions_of(self, contender: Contender) -> tuple[Precision, ...]:
        """The precisions at which a contender takes part."""
        if contender.precision is not None:
            return (contender.precision,)
        return self.campaign.precision or (self.run.evaluate.precision,)

    def config_of(self, cell: Cell) -> RunConfig:
        """The configuration of one run."""
        run = cell.contender.configure(self.run)
        engine = dataclasses.replace(run.engine, run_seed=cell.run_seed)
        evaluate = dataclasses.replace(run.evaluate, precision=cell.precision)
        return dataclasses.replace(run, task=cell.task.name, evaluate=evaluate, engine=engine)

    def _column(self, contender: Contender, precision: Precision) -> str:
        several = len(self.precisions_of(contender)) > 1
        return f"{contender.name} ({precision.value})" if several else contender.name

    def _cell(self, task: CampaignTask, contender: Contender, precision: Precision, repeat: int) -> Cell:
        column = self._column(contender, precision)
        seed = stream(self.campaign.seed, f"campaign run {task.name} {column} {repeat}").getrandbits(31)
        return Cell(task, contender, precision, repeat, column, _folder(task.name, column, repeat), seed)


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
        return CampaignFile(merge(self.campaign, upgraded(campaign), "campaign."), merge(self.run, rest))


def upgraded(campaign: Mapping[str, Any]) -> dict[str, Any]:
    """The table `[campaign]` with today's keys: contenders were called presets."""
    return {"contenders" if key == "presets" else key: value for key, value in campaign.items()}


def check(config: CampaignConfig) -> None:
    """Refuse cuts that make no sense, and a campaign without tasks.

    Raises:
        UserError: naming the setting.
    """
    for name in ("query_cuts", "usd_cuts"):
        cuts = getattr(config, name)
        if any(cut <= 0 for cut in cuts) or list(cuts) != sorted(set(cuts)):
            raise UserError(f"Setting 'campaign.{name}' must be rising numbers above 0, not {list(cuts)}")
    if not config.tasks:
        raise UserError('The campaign has no tasks: set campaign.tasks, for example tasks = ["demo/gpt_block"]')


def _folder(task: str, column: str, repeat: int) -> str:
    """A name for people that is a file name everywhere; the digest keeps different names apart."""
    digest = hashlib.sha256(f"{task}\n{column}".encode()).hexdigest()[:6]
    return f"{_slug(task)[-60:]}--{_slug(column)[-60:]}--{repeat + 1}-{digest}"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.") or "x"
