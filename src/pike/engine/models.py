"""Which model stands behind which role.

Knows how the names in the configuration fall back on each other. Does not know what a name means (`llm`) or connect to
anything.
"""

from __future__ import annotations

from pathlib import Path

from pike import search
from pike.core.config import LlmConfig, RunConfig
from pike.core.errors import UserError
from pike.core.step import Role

NONE = "none"
REPLAY = "replay:"


def model_names(config: LlmConfig) -> dict[Role, str]:
    """The model of each role; a role without its own takes the optimising role's."""
    return {Role.BRAINSTORM: config.iba or config.coa, Role.OPTIMISE: config.coa, Role.FIX: config.efa or config.coa}


def replayed(config: LlmConfig) -> Path | None:
    """The folder of the run that `config` replays, None if it replays none.

    Raises:
        UserError: only one role replays a run; a recording answers all of them or none.
    """
    names = model_names(config)
    replays = {name for name in names.values() if name.startswith(REPLAY)}
    if not replays:
        return None
    if len(set(names.values())) > 1:
        raise UserError(f"'{replays.pop()}' answers every role of a run: leave out --efa-llm and --iba-llm")
    return Path(names[Role.OPTIMISE].removeprefix(REPLAY))


def require_own_models(config: RunConfig) -> None:
    """Check that a preset which is about a role's own model was given one.

    Raises:
        UserError: it was not; the message names the option.
    """
    if config.llm.coa == NONE:
        return
    own = {Role.FIX: ("--efa-llm", config.llm.efa), Role.BRAINSTORM: ("--iba-llm", config.llm.iba)}
    for preset in search.presets():
        if preset.name == config.strategy.preset:
            for role in preset.own_models:
                option, given = own.get(role, ("--llm", config.llm.coa))
                if not given:
                    raise UserError(f"The strategy {preset.name} needs a model of its own for '{role}': give {option}")
