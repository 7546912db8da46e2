"""The one typed configuration tree.

Knows every dial with its default. Does not know where values come from (`merging`), or the options
of a strategy (`search`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from pike.core.query import ReasoningEffort
from pike.core.settings.budget import Budget
from pike.core.step import Role
from pike.core.verdict.evaluation import EvaluateOptions


@dataclass(frozen=True, slots=True)
class StrategyConfig:
    """Which strategy runs: a preset and the options that differ from it (checked by `search`).

    Attributes:
        preset: a preset, or the name of a strategy in `RunConfig.strategies`.
        options: what differs from it; everything once it is resolved.
        name: the name for people where that is not the preset; it decides nothing.
    """

    preset: str = "pike-b"
    options: dict[str, Any] = field(default_factory=dict)
    name: str = field(default="", compare=False)

    @property
    def label(self) -> str:
        """The name for people."""
        return self.name or self.preset


NONE = "none"
"""The model of a role that recipes answer."""
Models = str | tuple[str, ...]
"""The models of a role as a user writes them: one name, or several to choose from at each step."""


@dataclass(frozen=True, slots=True)
class LlmConfig:
    """The models that are asked; `models` reads them.

    A role may have several models (a list in TOML). One name is kept as a string, several as a
    tuple without repeats. So the same choice is always journalled in the same way.

    Attributes:
        coa: the model of the code optimisation agent, `none` for recipes.
        efa: the model of the error fixing agent, empty for the same as `coa`.
        iba: the model of the brainstorming agent, empty for the same as `coa`.
        plan: the model of the planning agent, empty for the same as `coa`.
        code: the model of the coding agent, empty for the same as `coa`.
        debug: the model of the debugging agent, empty for the same as `efa`.
        effort: the reasoning effort of every model: `off`, `minimal`, `low`, `medium`, `high`,
            `xhigh` or `max`; empty for the model's default. Models without such a setting ignore
            it.
        coa_effort: the same for the code optimisation agent, empty for `effort`; likewise the
            others.
        top_p: nucleus sampling of every model, None for the model's default.
        top_k: sample among so many tokens only, None for the model's default.
        timeout_seconds: limit on one call; of a server that streams (`openai:MODEL@URL`), on its
            silence.
        max_output_tokens: the most that one answer may have, thinking included; None for the
            strategy's own limit, which also holds where it is lower.
        max_attempts: calls per query, the first included, on transient failures.
        seed_recipes: put valid recipes into the library before the first query.
        replay_verdicts: for `replay:RUN`, take that run's verdicts too, so that the same decisions
            follow; otherwise its answers are judged anew.
    """

    coa: Models = NONE
    efa: Models = ""
    iba: Models = ""
    plan: Models = ""
    code: Models = ""
    debug: Models = ""
    effort: ReasoningEffort = ReasoningEffort.DEFAULT
    coa_effort: ReasoningEffort = ReasoningEffort.DEFAULT
    efa_effort: ReasoningEffort = ReasoningEffort.DEFAULT
    iba_effort: ReasoningEffort = ReasoningEffort.DEFAULT
    plan_effort: ReasoningEffort = ReasoningEffort.DEFAULT
    code_effort: ReasoningEffort = ReasoningEffort.DEFAULT
    debug_effort: ReasoningEffort = ReasoningEffort.DEFAULT
    top_p: float | None = None
    top_k: int | None = None
    timeout_seconds: float = 600.0
    max_output_tokens: int | None = None
    max_attempts: int = 6
    seed_recipes: bool = False
    replay_verdicts: bool = True

    def __post_init__(self) -> None:
        for role in Role:
            names = _distinct(getattr(self, role.value))
            kept = names if len(names) > 1 else "".join(names)
            object.__setattr__(self, role.value, kept)

    def only(self, name: str) -> LlmConfig:
        """The same with one model for every role."""
        return dataclasses.replace(self, coa=name, efa="", iba="", plan="", code="", debug="")

    def own(self, role: Role) -> tuple[str, ...]:
        """The models given to a role itself, empty where it takes those of another."""
        return _distinct(getattr(self, role.value))

    def models(self, role: Role) -> tuple[str, ...]:
        """The models of a role, at least one, the one that is asked first in front."""
        if role is Role.OPTIMISE:
            return self.own(role) or ("",)
        return self.own(role) or self.models(Role.FIX if role is Role.DEBUG else Role.OPTIMISE)

    @property
    def asks_models(self) -> bool:
        """Whether some role asks a model."""
        return any(map(self.asks_model, Role))

    def asks_model(self, role: Role) -> bool:
        """Whether a role asks a model, so that its steps are queries; recipes answer the others."""
        return self.models(role) != (NONE,)

    @property
    def costs_nothing(self) -> bool:
        """Whether recipes or answers by hand serve every role, so that no money is spent here."""
        return {name for role in Role for name in self.models(role)} <= {"", NONE, "by-hand"}

    def output_tokens(self, wanted: int) -> int:
        """The output limit of a query for which the strategy wants so many."""
        return wanted if self.max_output_tokens is None else min(wanted, self.max_output_tokens)

    def effort_of(self, role: Role) -> ReasoningEffort:
        """The reasoning effort of a role."""
        own: ReasoningEffort = getattr(self, f"{role.value}_effort")
        return own or self.effort


def _distinct(given: Models) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How a run is carried out.

    Attributes:
        run_seed: the seed of every named random stream.
        concurrency: the most steps in flight at once; a strategy may want fewer. PIKE-O was
            published with 20.
        judges: judge processes, at most `concurrency`; 0 means one for each two CPU cores and each
            6 GiB of a GPU.
        devices: GPUs of one model that judge side by side: `cuda:N` each, or only `all`; on a Ray
            cluster, the kind of GPU (`H100`), or how many of a kind may come (`H100:8`). Then
            `evaluate.device` is `auto` or `cuda`.
        executor: where judges work: `local`, `ray`, `ray:ADDRESS` or `http://HOST:PORT`, an
            evaluation service.
        recipe_seeds: compositions of recipes that are judged before the first query, where a search
            starts from recipes; the most promising ones, all at once.
        finalists: how many of the best candidates are measured again at the end.
        baselines: what is timed in the same sessions as the finalists (`pike suite --help` lists them).
        max_hours: hours of running, part of them kept for the finalists; None for no limit.
    """

    run_seed: int = 0
    concurrency: int = 20
    judges: int = 0
    devices: tuple[str, ...] = ()
    executor: str = "local"
    recipe_seeds: int = 12
    finalists: int = 3
    baselines: tuple[str, ...] = ()
    max_hours: float | None = None


@dataclass(frozen=True, slots=True)
class PromptConfig:
    """What prompts show, and from which templates.

    Attributes:
        profile: have the original and valid candidates profiled, and show where time goes; some
            strategies ask for it themselves.
        folder: a folder of templates that take the place of the shipped ones of the same name
            (`pike prompts TASK` shows them all).
        most_tokens: the model's window, prompt and answer together; 0 for no limit.
    """

    profile: bool = False
    folder: str = ""
    most_tokens: int = 0


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that decides a run, stored whole in its journal.

    Attributes:
        strategies: the user's own strategies by name: for each a table of `base` and options. The
            journal has only the resolved `strategy`.
    """

    task: str = ""
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    llm: LlmConfig = field(default_factory=LlmConfig)
    budget: Budget = field(default_factory=Budget)
    evaluate: EvaluateOptions = field(default_factory=EvaluateOptions)
    engine: EngineConfig = field(default_factory=EngineConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    strategies: dict[str, Any] = field(default_factory=dict)
