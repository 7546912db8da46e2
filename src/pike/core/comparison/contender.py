"""What takes part in a suite or a campaign: a baseline, recipes, solutions or a strategy.

Knows how it changes the shared configuration. Does not know which contenders exist.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pike.core.settings.config import RunConfig, StrategyConfig
from pike.core.settings.merging import merge
from pike.core.verdict.evaluation import Precision


class ContenderKind(StrEnum):
    """Where the candidates of a contender come from."""

    BASELINE = "baseline"
    """Written by PIKE for every task alike: eager, `torch.compile`, TensorRT."""
    RECIPES = "recipes"
    """Found by a search over recipes, without a language model."""
    PUBLISHED = "published"
    """Read from a folder of published solutions."""
    RUN = "run"
    """Found by a search strategy with language models, now or in runs that are over."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One participant, and one column of a results table.

    Attributes:
        name: short and unique, for example `compile:max-autotune`, `recipes` or `pike-b`.
        kind: where its candidates come from.
        source: for published solutions, their folder; for recipes and runs, the histories or runs
            whose winners are measured again.
        strategy: how it searches; None where nothing is searched.
        llm: settings of `[llm]` that differ from those of the other contenders: models, reasoning
            effort.
        prompts: its own folder of prompt templates, empty for that of the suite or campaign.
        precision: its own declared arithmetic; None for that of the suite or campaign.
    """

    name: str
    kind: ContenderKind
    source: str = ""
    strategy: StrategyConfig | None = field(default=None, hash=False)
    llm: dict[str, Any] = field(default_factory=dict, hash=False)
    precision: Precision | None = None
    prompts: str = ""

    @property
    def searches(self) -> bool:
        """Whether it searches; otherwise it has one fixed candidate for each task."""
        return self.strategy is not None

    @property
    def searches_with_models(self) -> bool:
        """Whether it searches with language models; recipes search without."""
        return self.kind is ContenderKind.RUN and self.searches

    @property
    def measures_winners(self) -> bool:
        """Whether it measures again what earlier searches over recipes found."""
        return self.kind is ContenderKind.RECIPES and bool(self.source)

    @property
    def recorded(self) -> Contender:
        """The contender as results hold it: without paths and options of a search over recipes."""
        return self if self.searches_with_models else Contender(self.name, self.kind)

    def configure(self, shared: RunConfig) -> RunConfig:
        """The configuration of its runs, from what all contenders share.

        Raises:
            UserError: a setting in `llm` is unknown or has the wrong type.
        """
        prompt = dataclasses.replace(shared.prompt, folder=self.prompts or shared.prompt.folder)
        strategy, llm = self.strategy or shared.strategy, merge(shared.llm, self.llm, "llm.")
        return dataclasses.replace(shared, strategy=strategy, llm=llm, prompt=prompt)
