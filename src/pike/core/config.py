"""The one typed configuration tree and how layers of it are merged.

Knows every dial with its default, and turns mappings (TOML tables, `a.b=c` settings) into the tree; an unknown
key is a `UserError` that offers the nearest name. Does not read files (`cli` does) and does not know the
options of a strategy: keys of `strategy` other than `preset` are handed to `search` to be checked.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import typing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pike.core.budget import Budget
from pike.core.codec import decode
from pike.core.errors import UserError
from pike.core.evaluation import EvaluateOptions
from pike.core.step import Role

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StrategyConfig:
    """Which strategy runs: a preset and the options that differ from it (checked by `search`).

    Attributes:
        preset: a preset, or the name of a strategy in `RunConfig.strategies`.
        options: what differs from it; everything once it is resolved.
        name: what people call it where that is not the preset; it decides nothing.
    """

    preset: str = "pike-b"
    options: dict[str, Any] = field(default_factory=dict)
    name: str = field(default="", compare=False)

    @property
    def label(self) -> str:
        """What people call it."""
        return self.name or self.preset


Models = str | tuple[str, ...]
"""What stands behind a role as a user writes it: one name, or several to choose from at each step."""


@dataclass(frozen=True, slots=True)
class LlmConfig:
    """Who is asked; `models` is how it is read.

    A role may have several models (a list in TOML). Whatever was given, one name is kept as a string and several as
    a tuple without repeats, so that the same choice is always written in the same way.

    Attributes:
        coa: the model of the code optimisation agent, `none` for recipes.
        efa: the model of the error fixing agent, empty for the same as `coa`.
        iba: the model of the brainstorming agent, empty for the same as `coa`.
        plan: the model of the planning agent, empty for the same as `coa`.
        code: the model of the coding agent, empty for the same as `coa`.
        debug: the model of the debugging agent, empty for the same as `efa`.
        timeout_seconds: limit on one call.
        max_attempts: calls per query, the first included, on transient failures.
        seed_recipes: put valid recipes into the library before the first query.
        replay_verdicts: for `replay:RUN`, take that run's verdicts too, so that the same decisions follow; else only
            its answers, judged anew.
    """

    coa: Models = "none"
    efa: Models = ""
    iba: Models = ""
    plan: Models = ""
    code: Models = ""
    debug: Models = ""
    timeout_seconds: float = 600.0
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
        stand_in = _STAND_INS.get(role)
        return self.own(role) or (("",) if stand_in is None else self.models(stand_in))


_STAND_INS = {
    Role.FIX: Role.OPTIMISE,
    Role.BRAINSTORM: Role.OPTIMISE,
    Role.PLAN: Role.OPTIMISE,
    Role.CODE: Role.OPTIMISE,
    Role.DEBUG: Role.FIX,
}
"""Whose models a role without its own takes."""


def _distinct(given: Models) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How a run is carried out.

    Attributes:
        run_seed: the seed of every named random stream.
        concurrency: the most steps in flight at once; a strategy may want fewer. 20, as PIKE-O was published with.
        judges: judge processes; 0 means one for each two CPU cores and each 6 GiB of a GPU, at most `concurrency`.
        finalists: how many of the best candidates are measured again at the end.
        max_hours: stop asking after this many hours of running, None for no limit.
    """

    run_seed: int = 0
    concurrency: int = 20
    judges: int = 0
    finalists: int = 3
    max_hours: float | None = None


@dataclass(frozen=True, slots=True)
class PromptConfig:
    """What prompts show beside the published text.

    Attributes:
        profile: have valid candidates profiled while searching, and show the seed's profile.
    """

    profile: bool = False


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that decides a run, stored whole in its journal.

    Attributes:
        strategies: strategies that the user put together and named: for each a table of `base` and options. What is
            journalled is `strategy`, resolved.
    """

    task: str = ""
    strategy: StrategyConfig = field(default_factory=StrategyConfig)
    llm: LlmConfig = field(default_factory=LlmConfig)
    budget: Budget = field(default_factory=Budget)
    evaluate: EvaluateOptions = field(default_factory=EvaluateOptions)
    engine: EngineConfig = field(default_factory=EngineConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    strategies: dict[str, Any] = field(default_factory=dict)


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """A hint such as `; did you mean 'budget'?`, or the list of known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(names)}"


def merge(base: T, layer: typing.Mapping[str, Any], where: str = "") -> T:
    """`base` with the values of a nested mapping put over it.

    Args:
        base: a frozen record of the tree.
        layer: nested mapping, for example a parsed TOML file.
        where: dotted path of `base`, for messages.

    Raises:
        UserError: a key is unknown or a value has the wrong type.
    """
    kind = type(base)
    known = {f.name for f in dataclasses.fields(base)}  # type: ignore[arg-type]
    changes: dict[str, Any] = {}
    for key, value in layer.items():
        path = f"{where}{key}"
        if kind is StrategyConfig and key not in known:
            given = changes.get("options", base.options)  # type: ignore[attr-defined]
            changes["options"] = overlaid(given or {}, {key: value})
            continue
        if key not in known:
            raise UserError(f"Unknown setting '{path}'{nearest(key, known)}")
        changes[key] = _merged_value(base, key, value, path)
    return dataclasses.replace(base, **changes)  # type: ignore[type-var]


def _merged_value(base: Any, key: str, value: Any, path: str) -> Any:
    current = getattr(base, key)
    if dataclasses.is_dataclass(current) and not isinstance(current, type):
        if not isinstance(value, typing.Mapping):
            raise UserError(f"Setting '{path}' is a table of settings, not {value!r}")
        return merge(current, value, f"{path}.")
    if isinstance(current, dict) and isinstance(value, typing.Mapping):
        return overlaid(current, value)
    hint = typing.get_type_hints(type(base))[key]
    try:
        return decode(hint, value)
    except ValueError as error:
        raise UserError(f"Setting '{path}' cannot be {value!r}: {error}") from error


def overlaid(base: typing.Mapping[str, Any], layer: typing.Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables with those of `layer` put over them; neither is changed."""
    merged = dict(base)
    for key, value in layer.items():
        below = merged.get(key)
        if isinstance(below, typing.Mapping) and isinstance(value, typing.Mapping):
            value = overlaid(below, value)
        merged[key] = value
    return merged


def parse_setting(text: str) -> dict[str, Any]:
    """One `a.b=c` setting as a nested mapping; the value is read as TOML, else as a string.

    Raises:
        UserError: there is no `=`.
    """
    path, found, raw = text.partition("=")
    if not found or not path.strip():
        raise UserError(f"Setting '{text}' must look like a.b=value, for example budget.queries=50")
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw
    for key in reversed(path.strip().split(".")):
        value = {key: value}
    return typing.cast("dict[str, Any]", value)
