"""Commands that carry out a run: `pike optimize` and `pike resume`.

Knows when to ask before money is spent, and what to print at the end. Does not know how a run works (`api`).
"""

from __future__ import annotations

import typer
from rich.prompt import Confirm

from pike import api
from pike.api.campaigns import is_campaign
from pike.api.views import RunResult, summarise
from pike.cli import campaigns, show
from pike.cli import options as opt
from pike.cli.progress import Watcher
from pike.cli.terminal import Terminal
from pike.core.errors import UserError
from pike.core.step import Role

INFRASTRUCTURE = frozenset({"provider", "infra"})
"""Reasons to stop that are the outside world's."""
WAITING = "waiting"
"""The reason to stop of a run that goes on with an answer by hand."""
FREE = frozenset({"", "none", "by-hand"})
"""Models that cost no money here."""


def optimize(
    task: opt.Task,
    strategy: opt.Strategy = None,
    llm: opt.Llm = None,
    efa_llm: opt.EfaLlm = None,
    iba_llm: opt.IbaLlm = None,
    plan_llm: opt.PlanLlm = None,
    code_llm: opt.CodeLlm = None,
    debug_llm: opt.DebugLlm = None,
    seed_recipes: opt.SeedRecipes = None,
    query_budget: opt.QueryBudget = None,
    usd_budget: opt.UsdBudget = None,
    max_minutes: opt.MaxMinutes = None,
    device: opt.Device = None,
    tolerance: opt.Tolerance = None,
    precision: opt.Precision = None,
    concurrency: opt.Concurrency = None,
    run_seed: opt.RunSeed = None,
    out: opt.Out = None,
    config: opt.Config = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
    yes: opt.Yes = False,
) -> None:
    """Search for a faster form of a model."""
    terminal = Terminal(as_json)
    given = api.Options(
        strategy=strategy,
        llm=llm,
        efa_llm=efa_llm,
        iba_llm=iba_llm,
        plan_llm=plan_llm,
        code_llm=code_llm,
        debug_llm=debug_llm,
        seed_recipes=seed_recipes,
        query_budget=query_budget,
        usd_budget=usd_budget,
        max_minutes=max_minutes,
        device=device,
        tolerance=tolerance,
        precision=precision,
        concurrency=concurrency,
        run_seed=run_seed,
        config=config,
        settings=settings or (),
    )
    if not yes:
        _ask_before_spending(terminal, task, given)
    with Watcher(terminal.notes) as watcher:
        done = api.optimize(task, out=out, observer=watcher, **given)
    finish(terminal, done)


def resume(run: opt.Run, as_json: opt.Json = False) -> None:
    """Continue a run or a campaign where it stopped."""
    if is_campaign(run):
        campaigns.campaign(resume=run, as_json=as_json)
        return
    terminal = Terminal(as_json)
    with Watcher(terminal.notes) as watcher:
        done = api.resume(run, observer=watcher)
    finish(terminal, done)


def finish(terminal: Terminal, done: api.Optimized) -> None:
    """Print what a run came to and end with the exit code that says so.

    0: finished with a valid candidate. 1: finished without one. 3: a provider or a judge failed for good.
    130: interrupted. A run that waits for an answer by hand ends with 0.
    """
    result = done.result
    summary = summarise(done.folder)
    if result.trail or result.declined:
        terminal.show(show.trail_table(result))
    terminal.show(show.runs_table([show.row_of(result, summary)]))
    terminal.show(*show.closing_lines(result, done.folder / "report.html"))
    terminal.result(result.flat())
    raise typer.Exit(exit_code(result))


def exit_code(result: RunResult) -> int:
    """What the process ends with, as `finish` says."""
    if result.stopped == WAITING:
        return 0
    if not result.finished:
        return 3 if result.stopped in INFRASTRUCTURE else 130
    return 0 if result.best is not None else 1


def _ask_before_spending(terminal: Terminal, task: str, given: api.Options) -> None:
    """Show what the run would cost and ask, unless it costs nothing.

    Raises:
        UserError: the run costs money and there is nobody to ask.
        typer.Exit: the answer is no.
    """
    llm = api.compose_config(task, given).llm
    if {name for role in Role for name in llm.models(role)} <= FREE:
        return
    estimate = api.estimate(task, **given)
    if estimate.usd == 0:
        return
    terminal.note(show.estimate_table(estimate))
    if not terminal.can_ask:
        cost = "an unknown amount" if estimate.usd is None else f"about ${estimate.usd:.2f}"
        raise UserError(f"This run would spend {cost} and there is no terminal to ask on: add --yes to agree")
    if not Confirm.ask("Start this run?", console=terminal.notes, default=False):
        raise typer.Exit(130)
