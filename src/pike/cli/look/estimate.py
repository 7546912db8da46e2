"""`pike estimate`: what a run would take.

Knows the options and the rows of an estimate. Does not know how it is computed (`api`).
"""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from pike.api import runs
from pike.api.options import given
from pike.api.views import Estimate
from pike.cli import options as opt
from pike.cli.terminal import Terminal, facts_table
from pike.core import figures


def estimate(
    task: opt.Task,
    strategy: opt.Strategy = None,
    llm: opt.Llm = None,
    efa_llm: opt.EfaLlm = None,
    iba_llm: opt.IbaLlm = None,
    plan_llm: opt.PlanLlm = None,
    code_llm: opt.CodeLlm = None,
    debug_llm: opt.DebugLlm = None,
    query_budget: opt.QueryBudget = None,
    usd_budget: opt.UsdBudget = None,
    concurrency: opt.Concurrency = None,
    config: opt.Config = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
) -> None:
    """Say what a run would take: queries, tokens, money and hours."""
    expected = runs.estimate(task, **given(locals()))
    terminal = Terminal(as_json)
    terminal.show(estimate_table(expected))
    terminal.result(expected)


def estimate_table(estimate: Estimate) -> Table:
    """What a run would take."""
    table = facts_table()
    if estimate.calls:
        table.add_row("models", Text(_models(estimate.models)))
    table.add_row("queries" if estimate.calls else "candidates", f"at most {figures.count(estimate.queries)}")
    if estimate.calls:
        table.add_row("calls", figures.count(estimate.calls))
        tokens = f"{figures.count(estimate.input_tokens)} in, {figures.count(estimate.output_tokens)} out"
        table.add_row("tokens", tokens)
        table.add_row("money", "unknown price" if estimate.usd is None else f"about {figures.usd(estimate.usd)}")
    table.add_row("time", f"about {figures.duration(estimate.hours * 3600)}")
    if estimate.limited_by != "queries":
        table.add_row("ends by", estimate.limited_by)
    for number, assumption in enumerate(estimate.assumptions):
        table.add_row("assuming" if number == 0 else "", Text(assumption, style="dim"))
    return table


def _models(pairs: Iterable[tuple[str, str]]) -> str:
    by_role: dict[str, list[str]] = {}
    for role, name in pairs:
        by_role.setdefault(role, []).append(name)
    return ", ".join(f"{role}: {' or '.join(names)}" for role, names in by_role.items())
