"""The models behind each role, and the strategy that chooses among several.

Knows how the names in the configuration fall back on each other, and which of them go together.
Does not know what a name means (`llm`) or how one of several is chosen (`search`).
"""

from collections.abc import Collection
from pathlib import Path

from pike import llm, search
from pike.core.errors import UserError
from pike.core.settings.config import NONE, LlmConfig, RunConfig
from pike.core.step import Role, Strategy
from pike.engine.state.replay import record_of
from pike.llm import EXTERNAL, REPLAY
from pike.search import over_models

OPTIONS = {role: "--llm" if role is Role.OPTIMISE else f"--{role.value}-llm" for role in Role}
"""The command line's name for each role's models."""


def model_names(config: LlmConfig) -> dict[Role, tuple[str, ...]]:
    """The models of each role, first choice first; a role without its own takes those of another.

    Raises:
        UserError: `none`, `by-hand` or a replay is one of several models, or one beside it is none.
    """
    names = {role: config.models(role) for role in Role}
    for role in Role:
        several = config.own(role)
        alone = [name for name in several if name in (NONE, EXTERNAL) or name.startswith(REPLAY)]
        if alone and len(several) > 1:
            for name in several:
                llm.parse(name)
            hint = "; recipes join a search with --seed-recipes" if NONE in alone else ""
            raise UserError(f"'{alone[0]}' cannot be one of several models of {OPTIONS[role]}: give it alone{hint}")
    return names


def pairs(config: LlmConfig, roles: Collection[Role]) -> tuple[tuple[str, str], ...]:
    """(role, model) pairs of these roles, one for each model that a role can ask."""
    return tuple((role.value, name) for role in Role if role in roles for name in config.models(role))


def replayed(config: LlmConfig) -> Path | None:
    """The folder of the run that `config` replays, None if it replays none.

    Raises:
        UserError: only some roles replay a run; a recording answers all of them or none.
    """
    distinct = {name for several in model_names(config).values() for name in several}
    replays = sorted(name for name in distinct if name.startswith(REPLAY))
    if not replays:
        return None
    if len(distinct) > 1:
        raise UserError(f"'{replays[0]}' answers every role of a run: leave out {_given(config)}")
    return Path(replays[0].removeprefix(REPLAY))


def arms(config: LlmConfig) -> dict[Role, tuple[str, ...]]:
    """The models of each role that has several; in a replay, those of the recorded run."""
    folder = replayed(config)
    if folder is not None:
        return arms(record_of(folder).started.config.llm)
    return {role: several for role, several in model_names(config).items() if len(several) > 1}


def make_strategy(config: RunConfig) -> Strategy:
    """A new strategy for a run; it also chooses among the models of a role that has several."""
    strategy = search.make(config.strategy, config.budget, config.engine.run_seed)
    several = arms(config.llm)
    return over_models(strategy, several, config.engine.run_seed) if several else strategy


def require_keys(config: LlmConfig) -> None:
    """Check that the environment has the key of every model; nothing is sent.

    Raises:
        UserError: one is missing.
    """
    names = dict.fromkeys(name for several in model_names(config).values() for name in several)
    llm.require_keys(names)


def require_own_models(config: RunConfig) -> None:
    """Check that every role has a model where the strategy or another role needs it.

    Raises:
        UserError: one has none; the message names the option.
    """
    models = config.llm
    plan, code = (models.asks_model(role) for role in (Role.PLAN, Role.CODE))
    if plan != code:
        planner, coder = ("a model", "recipes") if plan else ("recipes", "a model")
        raise UserError(
            f"{planner.capitalize()} would plan and {coder} carry it out, which cannot work: give both "
            f"{OPTIONS[Role.PLAN]} and {OPTIONS[Role.CODE]}, or neither"
        )
    if not models.asks_model(Role.OPTIMISE):
        return
    for preset in search.presets():
        if preset.name == config.strategy.preset:
            for role in preset.own_models:
                if not models.own(role):
                    raise UserError(
                        f"The strategy {preset.name} needs a model of its own for '{role}': give {OPTIONS[role]}"
                    )


def _given(config: LlmConfig) -> str:
    others = [OPTIONS[role] for role in Role if role is not Role.OPTIMISE and config.own(role)]
    return " and ".join(others) or "all other models"
