"""A user's configuration, resolved before a run begins.

Knows that a strategy may be one that the user named, and that a strategy may ask for recipes. Does
not know any strategy or option (`search`).
"""

import math
from dataclasses import replace
from pathlib import Path

from pike import baselines, search
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.settings.config import NONE, RunConfig
from pike.core.task import Task
from pike.core.verdict.evaluation import EvaluateOptions
from pike.engine.state.models import replayed
from pike.engine.state.timetable import limit_seconds

RECIPE_HOURS = 1 / 6
"""How long recipes are tried by default: they cost nothing, and there are very many compositions.
"""
LEAST_SECONDS, SLACK = 60.0, 3.0
"""The limit on a candidate is so many times what its verdict should take, and never shorter."""
LEAST_TIMING_SECONDS, TIMING_SHARE = 2.0, 0.05
"""The share of a run's time that one timing of the search may take on a busy machine."""


def resolve(config: RunConfig) -> RunConfig:
    """The configuration that is journalled, which means the same without the user's file.

    The strategy becomes a preset with every option written out, under the user's name for it.
    Where it writes with recipes or starts from them, `llm` says so. Recipes that write everything
    get a limit of time. Resolving twice changes nothing.

    Raises:
        UserError: the strategy or an option cannot be used.
    """
    strategy = search.resolve(config.strategy, config.strategies)
    needs, llm = search.needs(strategy), config.llm
    engine = config.engine
    if needs.recipes_write and replayed(llm) is None:
        llm = llm.only(NONE)
        engine = replace(engine, max_hours=RECIPE_HOURS if engine.max_hours is None else engine.max_hours)
    if needs.recipe_seeds:
        llm = replace(llm, seed_recipes=True)
    profile, folder = config.prompt.profile or needs.profile, prompt_folder(config.prompt.folder)
    prompt = replace(config.prompt, profile=profile, folder=folder)
    return replace(config, strategy=strategy, strategies={}, llm=llm, engine=engine, prompt=prompt)


def prompt_folder(given: str) -> str:
    """The absolute path of a folder of prompt templates, empty for none.

    Raises:
        UserError: it is no such folder, or a template in it takes the place of none.
    """
    if not given:
        return ""
    from pike.agents import prompts_version

    folder = str(Path(given).expanduser().resolve())
    prompts_version(folder)
    return folder


def baseline_sources(config: RunConfig, task: Task, device: DeviceFacts) -> dict[str, str]:
    """The candidate file of each baseline that is measured beside the finalists.

    Raises:
        UserError: there is no such baseline, or it needs another device.
    """
    found = {}
    for name in config.engine.baselines:
        baseline = baselines.baseline_named(name)
        if baseline is None or baseline not in baselines.for_device(device.is_cuda):
            known = ", ".join(one.name for one in baselines.for_device(device.is_cuda))
            raise UserError(f"engine.baselines: there is no baseline '{name}' on {device.device}; choose from {known}")
        found[name] = baselines.source(baseline, task, config.evaluate.precision)
    return found


def search_terms(config: RunConfig, expected_seconds: float = 0.0) -> EvaluateOptions:
    """The terms on which a search judges a candidate whose verdict should take so many seconds."""
    if not expected_seconds:
        return config.evaluate
    options, seconds = config.evaluate, max(LEAST_SECONDS, SLACK * expected_seconds)
    timing = max(LEAST_TIMING_SECONDS, TIMING_SHARE * (limit_seconds(config.engine) or math.inf))
    return replace(
        options,
        timeout_seconds=min(options.timeout_seconds, seconds),
        max_timing_seconds=min(options.max_timing_seconds, timing),
    )
