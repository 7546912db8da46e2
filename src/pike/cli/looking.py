"""Commands that only look: `pike tasks`, `strategies`, `estimate`, `doctor` and `report`.

Knows what each prints. Does not know where it comes from (`api`).
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer
from rich.text import Text

from pike import api
from pike.api.views import RunSummary, in_suite, presets, suites, summarise
from pike.cli import options as opt
from pike.cli import show
from pike.cli.terminal import Terminal
from pike.core import figures
from pike.core.lint import LintReport

Suite = Annotated[str | None, typer.Argument(metavar="SUITE", help="Only the tasks of this suite.", show_default=False)]

Lint = Annotated[
    str | None,
    typer.Option(metavar="PATH|SUITE/ID", help="Try trivial answers on this task; all must fail.", show_default=False),
]


def tasks(
    suite: Suite = None,
    lint: Lint = None,
    device: opt.Device = None,
    precision: opt.Precision = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
) -> None:
    """List the tasks that are installed, or say whether one of them tests anything."""
    terminal = Terminal(as_json)
    if lint is not None:
        _lint(terminal, lint, api.Options(device=device, precision=precision, settings=settings or ()))
        return
    found = [task for name in ([suite] if suite else suites()) for task in in_suite(name)]
    terminal.show(show.tasks_table(found))
    terminal.result({"tasks": [{"id": t.id, "name": t.name, "kind": t.kind, "origin": t.origin} for t in found]})


def _lint(terminal: Terminal, task: str, given: api.Options) -> None:
    report = api.lint(task, **given)
    terminal.show(show.lint_table(report))
    terminal.show(Text(_lint_sentence(report), style="bold"))
    terminal.result({"task": report.task, "sound": report.sound, "untried": report.untried, "answers": report.answers})
    raise typer.Exit(0 if report.sound else 1)


def _lint_sentence(report: LintReport) -> str:
    found = f"{figures.plural(len(report.answers), 'trivial answer')} tried"
    if report.untried:
        found += f", {report.untried} more not for lack of time"
    return f"{found}: {'all refused.' if report.sound else f'{len(report.passing)} would pass.'}"


def strategies(as_json: opt.Json = False) -> None:
    """List the strategies by name."""
    terminal = Terminal(as_json)
    terminal.show(show.presets_table(presets()))
    terminal.result({"strategies": [dataclasses.asdict(preset) for preset in presets()]})


def estimate(
    task: opt.Task,
    strategy: opt.Strategy = None,
    llm: opt.Llm = None,
    efa_llm: opt.EfaLlm = None,
    iba_llm: opt.IbaLlm = None,
    query_budget: opt.QueryBudget = None,
    usd_budget: opt.UsdBudget = None,
    concurrency: opt.Concurrency = None,
    config: opt.Config = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
) -> None:
    """Say what a run would take: queries, tokens, money and hours."""
    terminal = Terminal(as_json)
    given = api.Options(
        strategy=strategy,
        llm=llm,
        efa_llm=efa_llm,
        iba_llm=iba_llm,
        query_budget=query_budget,
        usd_budget=usd_budget,
        concurrency=concurrency,
        config=config,
        settings=settings or (),
    )
    expected = api.estimate(task, **given)
    terminal.show(show.estimate_table(expected))
    terminal.result(expected)


SelfTest = Annotated[
    bool, typer.Option("--self-test", help="Judge attacks and honest candidates of PIKE's own here; a few minutes.")
]


def doctor(self_test: SelfTest = False, device: opt.Device = None, as_json: opt.Json = False) -> None:
    """Say what works on this machine, what is missing, and what to do about it."""
    terminal = Terminal(as_json)
    if self_test:
        raise typer.Exit(_self_test(terminal, device or "auto"))
    checks = api.doctor()
    ready = all(check.ok for check in checks if check.needed)
    terminal.show(show.checks_table(checks))
    terminal.show(Text("Ready to run." if ready else "Not ready: see what is missing above.", style="bold"))
    terminal.result({"ready": ready, "checks": [dataclasses.asdict(check) for check in checks]})
    raise typer.Exit(0 if ready else 3)


def _self_test(terminal: Terminal, device: str) -> int:
    """Show what is enforced here; 1 if something that was owed was not delivered."""
    trials = api.self_test(device, lambda trial: terminal.note(Text(f"{trial.sample}: {trial.got or trial.detail}")))
    failed = [trial for trial in trials if not trial.ok]
    terminal.show(show.trials_table(trials))
    judged = figures.plural(sum(trial.promised for trial in trials), "sample")
    words = f"{len(failed)} of {judged} did not get the verdict they are owed." if failed else f"All {judged} as owed."
    terminal.show(Text(words, style="bold"))
    terminal.result({"ok": not failed, "trials": [dataclasses.asdict(trial) for trial in trials]})
    return 1 if failed else 0


def report(run: opt.Run, as_json: opt.Json = False) -> None:
    """Write the page of a run, finished or not; of a folder of runs, a page that lists them."""
    terminal = Terminal(as_json)
    page = api.report(run)
    summary = summarise(run) if page.parent == run and page.name == "report.html" else None
    if summary is not None:
        terminal.show(Text(_sentence(summary)))
    terminal.show(Text(str(page)))
    terminal.result({"report": str(page), "summary": None if summary is None else _flat(summary)})


def _sentence(summary: RunSummary) -> str:
    best = summary.best
    reached = f"best {figures.times(best.speedup)} by {best.candidate.id}" if best else "no valid candidate"
    queries = f"{summary.spend.queries} of {figures.plural(summary.config.budget.queries, 'query')}"
    return f"{summary.task.name}: {summary.state.value}, {reached}, {queries}, {figures.duration(summary.seconds)}"


def _flat(summary: RunSummary) -> dict[str, Any]:
    best = summary.best
    return {
        "task": summary.task.id,
        "state": summary.state,
        "stopped": summary.stop_reason,
        "best": best.candidate.id if best else None,
        "speedup": best.speedup if best else None,
        "spend": summary.spend,
        "seconds": summary.seconds,
        "rounds": summary.rounds,
        "statuses": {status.value: number for status, number in summary.statuses},
        "fix_attempts": {str(attempts): number for attempts, number in summary.fix_attempts},
        "never_valid": summary.never_valid,
        "trajectory": summary.points,
    }
