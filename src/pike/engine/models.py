"""Which models stand behind which role, and the strategy that chooses among several.

Knows how the names in the configuration fall back on each other and which of them go together. Does not know what a
name means (`llm`), how one of several is chosen (`search.bandit`), or connect to anything.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pike import search
from pike.core.config import LlmConfig, RunConfig
from pike.core.errors import UserError
from pike.core.step import Role, Strategy
from pike.engine.replay import record_of
from pike.llm.hand import NAME as BY_HAND
from pike.search.bandit import over_models

NONE = "none"
REPLAY = "replay:"
OPTIONS = {role: "--llm" if role is Role.OPTIMISE else f"--{role.value}-llm" for role in Role}
"""The command line's name for each role's models."""


def model_names(config: LlmConfig) -> dict[Role, tuple[str, ...]]:
    """The models of each role, first choice first; a role without its own takes those of another.

    Raises:
        UserError: recipes, a recorded run or answers by hand are to be one of several models.
    """
    names = {role: config.models(role) for role in Role}
    for role, several in names.items():
        alone = [name for name in several if name in (NONE, BY_HAND) or name.startswith(REPLAY)]
        if alone and len(several) > 1:
            hint = "; recipes join a search with --seed-recipes" if NONE in alone else ""
            raise UserError(f"'{alone[0]}' cannot be one of several models of '{role}': give it alone{hint}")
    return names


def pairs(config: LlmConfig, roles: Collection[Role]) -> tuple[tuple[str, str], ...]:
    """(role, model) pairs of these roles for people, one for each model that a role can ask."""
    return tuple((role.value, name) for role in Role if role in roles for name in config.models(role))


def replayed(config: LlmConfig) -> Path | None:
    """The folder of the run that `config` replays, None if it replays none.

    Raises:
        UserError: only one role replays a run; a recording answers all of them or none.
    """
    distinct = {name for several in model_names(config).values() for name in several}
    replays = sorted(name for name in distinct if name.startswith(REPLAY))
    if not replays:
        return None
    if len(distinct) > 1:
        raise UserError(f"'{replays[0]}' answers every role of a run: leave out {_given(config)}")
    return Path(replays[0].removeprefix(REPLAY))


def arms(config: LlmConfig) -> dict[Role, tuple[str, ...]]:
    """The models of each role that has several to choose from; in a replay, those of the recorded run.

    Raises:
        UserError: models do not go together, or a run to replay is not there.
    """
    folder = replayed(config)
    if folder is not None:
        return arms(record_of(folder).started.config.llm)
    return {role: several for role, several in model_names(config).items() if len(several) > 1}


def make_strategy(config: RunConfig) -> Strategy:
    """The strategy of a run, new; where a role has several models it also chooses among them.

    Raises:
        UserError: the strategy, an option or the models cannot be used.
    """
    strategy = search.make(config.strategy, config.budget, config.engine.run_seed)
    several = arms(config.llm)
    return over_models(strategy, several, config.engine.run_seed) if several else strategy


def require_own_models(config: RunConfig) -> None:
    """Check that roles which need a model, or need one together, were given one.

    Raises:
        UserError: they were not; the message names the option.
    """
    llm = config.llm
    plan, code = (llm.models(role) == (NONE,) for role in (Role.PLAN, Role.CODE))
    if plan != code:
        planner, coder = ("recipes", "a model") if plan else ("a model", "recipes")
        raise UserError(
            f"{planner.capitalize()} would plan and {coder} carry it out, which cannot work: give both "
            f"{OPTIONS[Role.PLAN]} and {OPTIONS[Role.CODE]}, or neither"
        )
    if llm.models(Role.OPTIMISE) == (NONE,):
        return
    for preset in search.presets():
        if preset.name == config.strategy.preset:
            for role in preset.own_models:
                if not llm.own(role):
                    raise UserError(
                        f"The strategy {preset.name} needs a model of its own for '{role}': give {OPTIONS[role]}"
                    )


def _given(config: LlmConfig) -> str:
    others = [OPTIONS[role] for role in Role if role is not Role.OPTIMISE and config.own(role)]
    return " and ".join(others) or "all other models"
