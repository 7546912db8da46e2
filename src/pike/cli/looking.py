"""Commands that only look: `pike tasks`, `strategies`, `estimate`, `doctor` and `report`.

Knows what each prints. Does not know where it comes from (`api`).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from pike import api
from pike.api.campaigns import campaign_figures, is_campaign
from pike.api.suites import TaskInfo, is_suite, known_suites, lint_suite, look_into
from pike.api.views import RunSummary, presets, summarise
from pike.cli import campaigns, show
from pike.cli import options as opt
from pike.cli.terminal import Terminal
from pike.core import figures
from pike.core.codec import encode
from pike.core.errors import UserError
from pike.core.evaluation import Precision
from pike.core.lint import LintReport

Suite = Annotated[
    str | None,
    typer.Argument(
        metavar="SUITE|TASK",
        help="A suite: a shipped one, a folder of files, a checkout of KernelBench, or hf:OWNER/NAME[/SPLIT]; with "
        ":small after it, its small variants. Or one task.",
        show_default=False,
    ),
]

Lint = Annotated[
    bool,
    typer.Option(
        "--lint", help="Try trivial answers; all must fail. A suite's findings are kept, and what is known is skipped."
    ),
]


def tasks(
    suite: Suite = None,
    lint: Lint = False,
    device: opt.Device = None,
    precision: opt.Precision = None,
    settings: opt.Set = None,
    as_json: opt.Json = False,
) -> None:
    """List the suites, or the tasks of one with what they take and return; --lint says whether they test anything."""
    terminal = Terminal(as_json)
    given = api.Options(device=device, precision=precision, settings=settings or ())
    if suite is None:
        if lint:
            raise UserError("Give what is to be linted: pike tasks --lint SUITE, SUITE/ID or a file")
        _suites(terminal)
    elif not lint:
        _look(terminal, suite, precision)
    elif is_suite(suite):
        _lint_suite(terminal, suite, given)
    else:
        _lint(terminal, suite, given)


def _suites(terminal: Terminal) -> None:
    found = known_suites()
    terminal.show(show.suites_table(found))
    terminal.show(Text("pike tasks SUITE lists the tasks of one; a folder of tasks or hf:OWNER/NAME is a suite too."))
    terminal.result({"suites": [dataclasses.asdict(suite) for suite in found]})


def _look(terminal: Terminal, suite: str, precision: Precision | None) -> None:
    found = list(look_into(suite, precision))
    terminal.show(show.tasks_table(found))
    for task in found:
        for problem in task.outline.problems:
            terminal.note(Text(f"{task.id}: {problem}", style="yellow"))
    terminal.result({"tasks": [_row(task) for task in found]})


def _row(task: TaskInfo) -> dict[str, Any]:
    """One task for programs, flat."""
    row: dict[str, Any] = encode(task)
    outline = row.pop("outline")
    lint = row.pop("lint")
    return {**row, **outline, "lint": lint and {"sound": task.lint is not None and task.lint.sound, **lint}}


def _lint_suite(terminal: Terminal, suite: str, given: api.Options) -> None:
    """Say of each task what was found as it is found; code 1 unless all are sound."""
    found = []
    for one in lint_suite(suite, **given):
        found.append(one)
        words = one.verdict.words if one.verdict else one.problem
        terminal.note(Text(f"{one.id}: {words}{' (known)' if one.was_known else ''}"))
    sound = [one for one in found if one.verdict is not None and one.verdict.sound]
    if len(sound) < len(found):
        terminal.show(show.linted_table(found))
    terminal.show(Text(f"{len(sound)} of {figures.plural(len(found), 'task')} sound.", style="bold"))
    terminal.result({"sound": len(sound) == len(found), "tasks": found})
    raise typer.Exit(0 if len(sound) == len(found) else 1)


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


def strategies(config: opt.Config = None, as_json: opt.Json = False) -> None:
    """List the strategies by name, those that a configuration file adds last."""
    terminal = Terminal(as_json)
    found = presets(config)
    terminal.show(show.presets_table(found))
    terminal.result({"strategies": [dataclasses.asdict(preset) for preset in found]})


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
    terminal = Terminal(as_json)
    given = api.Options(
        strategy=strategy,
        llm=llm,
        efa_llm=efa_llm,
        iba_llm=iba_llm,
        plan_llm=plan_llm,
        code_llm=code_llm,
        debug_llm=debug_llm,
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
    """Write the page of a run, finished or not; of a campaign or a folder of runs, a page that lists them."""
    terminal = Terminal(as_json)
    if is_campaign(run):
        _report_campaign(terminal, run)
        return
    page = api.report(run)
    summary = summarise(run) if page.parent == run and page.name == "report.html" else None
    if summary is not None:
        terminal.show(Text(_sentence(summary)))
    terminal.show(Text(str(page)))
    terminal.result({"report": str(page), "summary": None if summary is None else _flat(summary)})


def _report_campaign(terminal: Terminal, folder: Path) -> None:
    """The table, `campaign.json` anew, and the pages of the runs that have begun."""
    found = campaign_figures(folder)
    campaigns.show(terminal, folder, found)
    begun = any(cell.run for cell in found.cells)
    page = api.report(folder / "runs") if begun else None
    if page is not None:
        terminal.show(Text(f"page      {page}"))
    terminal.result({"report": None if page is None else str(page), "campaign": found})


def _sentence(summary: RunSummary) -> str:
    best = summary.best
    reached = f"best {figures.times(best.speedup)} by {best.candidate.id}" if best else "no valid candidate"
    if best and not best.faster:
        reached = (
            f"the original stays (the fastest valid candidate, {best.candidate.id}, {figures.times(best.speedup)})"
        )
    queries = f"{summary.spend.queries} of {figures.plural(summary.config.budget.queries, 'query')}"
    return f"{summary.task.name}: {summary.state.value}, {reached}, {queries}, {figures.duration(summary.seconds)}"


def _flat(summary: RunSummary) -> dict[str, Any]:
    best = summary.best
    return {
        "task": summary.task.id,
        "state": summary.state,
        "stopped": summary.stop_reason,
        "best": best.candidate.id if best else None,
        "improved": best is not None and best.faster,
        "speedup": None if best is None else best.speedup if best.faster else 1.0,
        "spend": summary.spend,
        "seconds": summary.seconds,
        "rounds": summary.rounds,
        "statuses": {status.value: number for status, number in summary.statuses},
        "fix_attempts": {str(attempts): number for attempts, number in summary.fix_attempts},
        "never_valid": summary.never_valid,
        "trajectory": summary.points,
    }
