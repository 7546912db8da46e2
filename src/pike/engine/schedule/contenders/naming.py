"""From the name of a contender to its record.

Knows every kind by name. Does not know their candidates or how they are carried out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pike import search
from pike.baselines import BASELINES, PREFIX, PublishedFolder, baseline_named
from pike.core.codec import decode
from pike.core.comparison.contender import Contender, ContenderKind
from pike.core.errors import UserError
from pike.core.settings.config import StrategyConfig
from pike.core.settings.merging import nearest
from pike.core.verdict.evaluation import Precision
from pike.engine.run.configuration import prompt_folder
from pike.engine.schedule.contenders.histories import Histories
from pike.engine.schedule.contenders.run_winners import RunWinners

RECIPES = "recipes"
_OWN = ("base", "name", "llm", "prompts", "precision")
WINNERS = "winners:"
"""What the name of a contender begins with whose candidates earlier searches over recipes found; a
path follows."""
RUN = "run:"
"""What the name of a contender begins with whose candidates finished runs found; a folder follows."""


def contenders_named(given: Sequence[Any], strategies: Mapping[str, Any]) -> tuple[Contender, ...]:
    """The contenders that a configuration or a command line names, in order.

    Args:
        given: names, or tables with `base`, `name`, `llm`, `prompts`, `precision` and the options
            that differ from the base.
        strategies: the user's own, by name.

    Raises:
        UserError: there is none, one is named twice, or one is neither a known name nor a usable
            table.
    """
    if not given:
        raise UserError('There are no contenders: set campaign.contenders, for example contenders = ["pike-b"]')
    found = tuple(_contender(one, strategies) for one in given)
    names = [contender.name for contender in found]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"The contender '{name}' is named twice: give each its own name")
    return found


def _contender(given: Any, strategies: Mapping[str, Any]) -> Contender:
    table = {"base": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not isinstance(table.get("base"), str):
        raise UserError(
            f"Setting 'campaign.contenders' cannot hold {given!r}: give names of contenders, or tables such as "
            '{name = "mine", base = "pike-b", temperature = 0.2}'
        )
    base, name = table["base"], str(table.get("name", ""))
    options = {key: value for key, value in table.items() if key not in _OWN}
    fixed = _fixed(base, name)
    if fixed is None:
        known = {*strategies, *(preset.name for preset in search.presets())}
        if base not in known:
            raise UserError(f"There is no contender '{base}'{nearest(base, known | {one.name for one in BASELINES})}")
        try:
            strategy = search.resolve(StrategyConfig(base, options, name), strategies)
        except UserError as error:
            raise UserError(f"The contender '{name or base}' cannot be used: {error}") from error
        kind = ContenderKind.RECIPES if search.needs(strategy).recipes_write else ContenderKind.RUN
        fixed = Contender(name or base, kind, strategy=strategy)
    elif refused := [*options, *(key for key in ("llm", "prompts") if key in table)]:
        raise UserError(f"The contender '{fixed.name}' has no option '{refused[0]}': nothing is searched")
    return _with_own(fixed, table)


def _fixed(base: str, name: str) -> Contender | None:
    """A contender with one candidate for each task, None if `base` names a strategy."""
    if base.startswith(PREFIX):
        folder = PublishedFolder(Path(base.removeprefix(PREFIX)).expanduser())
        return Contender(name or folder.name, ContenderKind.PUBLISHED, str(folder.folder.resolve()))
    if base.startswith(WINNERS):
        path = Path(base.removeprefix(WINNERS)).expanduser().resolve()
        Histories.read([path])
        return Contender(name or RECIPES, ContenderKind.RECIPES, str(path))
    if base.startswith(RUN):
        runs = RunWinners(Path(base.removeprefix(RUN)).expanduser().resolve())
        return Contender(name or f"{RUN}{runs.folder.name}", ContenderKind.RUN, str(runs.folder))
    if baseline_named(base) is not None:
        return Contender(name or base, ContenderKind.BASELINE, base)
    return None


def _with_own(contender: Contender, table: Mapping[str, Any]) -> Contender:
    """The contender with the models and the precision that only it has."""
    llm, precision = table.get("llm", {}), table.get("precision")
    try:
        own = None if precision is None else decode(Precision, precision)
    except ValueError as error:
        raise UserError(
            f"The precision of the contender '{contender.name}' cannot be {precision!r}: {error}"
        ) from error
    given = {"coa": llm} if isinstance(llm, str | list) else dict(llm)
    prompts = prompt_folder(str(table.get("prompts", "")))
    return replace(contender, llm=given, precision=own, prompts=prompts)
