"""`pike optimize` and `pike resume`: a run begun, or carried on where it stopped.

Knows when to ask before money is spent. Does not know how a run works (`api`).
"""

from pike.api import runs
from pike.api.campaigns import is_campaign
from pike.api.options import Options, compose_config, given
from pike.cli import options as opt
from pike.cli.compare import campaign
from pike.cli.display.progress import Watcher
from pike.cli.display.run import finish
from pike.cli.look.estimate import estimate_table
from pike.cli.terminal import Terminal


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
    devices: opt.Devices = None,
    executor: opt.Executor = None,
    tolerance: opt.Tolerance = None,
    precision: opt.Precision = None,
    concurrency: opt.Concurrency = None,
    run_seed: opt.RunSeed = None,
    out: opt.Out = None,
    track: opt.Track = None,
    config: opt.Config = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    yes: opt.Yes = False,
) -> None:
    """Search for a faster form of a model."""
    terms = given(locals())
    terminal = Terminal(as_json, quiet)
    if not yes:
        _ask_before_spending(terminal, task, terms)
    with Watcher(terminal.notes) as watcher:
        done = runs.optimize(task, out=out, track=track or (), observer=watcher, **terms)
    finish(terminal, done)


def _ask_before_spending(terminal: Terminal, task: str, terms: Options) -> None:
    """Show what the run would cost and ask, unless it costs nothing."""
    llm = compose_config(task, terms).llm
    if llm.costs_nothing:
        return
    runs.require_keys(llm)
    estimate = runs.estimate(task, **terms)
    if estimate.usd != 0:
        terminal.note(estimate_table(estimate))
    terminal.confirm_spending("run", estimate.usd)


def resume(run: opt.Run, track: opt.Track = None, as_json: opt.Json = False, quiet: opt.Quiet = False) -> None:
    """Continue a run or a campaign where it stopped."""
    if is_campaign(run):
        campaign.campaign(resume=run, as_json=as_json, quiet=quiet)
        return
    terminal = Terminal(as_json, quiet)
    with Watcher(terminal.notes) as watcher:
        done = runs.resume(run, track=track or (), observer=watcher)
    finish(terminal, done)
