"""`pike doctor`: what works on this machine, and what the judge enforces here.

Knows how findings are printed. Does not know how they are made (`api`).
"""

import dataclasses
from collections.abc import Iterable
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from pike.api import judging
from pike.api.views import Check, SelfTestResult
from pike.cli import options as opt
from pike.cli.terminal import Terminal, table_of
from pike.core import figures

SelfTest = Annotated[
    bool, typer.Option("--self-test", help="Judge attacks and honest candidates of PIKE's own here; a few minutes.")
]


def doctor(
    self_test: SelfTest = False, device: opt.Device = None, executor: opt.Executor = None, as_json: opt.Json = False
) -> None:
    """Say what works on this machine, or on each node of a Ray cluster, and what to do about the rest."""
    terminal = Terminal(as_json)
    if self_test:
        raise typer.Exit(_self_test(terminal, device or "auto"))
    checks = judging.doctor(executor or "")
    ready = all(check.ok for check in checks if check.needed)
    terminal.show(checks_table(checks))
    terminal.show("Ready to run." if ready else "Not ready: see what is missing above.", style="bold")
    terminal.result({"ready": ready, "checks": [dataclasses.asdict(check) for check in checks]})
    raise typer.Exit(0 if ready else 3)


def _self_test(terminal: Terminal, device: str) -> int:
    """Show what is enforced here; 1 if a sample did not get its verdict."""
    results = judging.self_test(device, lambda one: terminal.note(f"{one.sample}: {one.got or one.detail}"))
    failed = [one for one in results if not one.ok]
    terminal.show(self_test_table(results))
    judged = figures.plural(sum(one.promised for one in results), "sample")
    words = f"{len(failed)} of {judged} did not get the expected verdict." if failed else f"All {judged} as expected."
    terminal.show(words, style="bold")
    terminal.result({"ok": not failed, "trials": [dataclasses.asdict(one) for one in results]})
    return 1 if failed else 0


def checks_table(checks: Iterable[Check]) -> Table:
    """What works on this machine."""
    table = table_of(("", "what", "found", "what to do"))
    for check in checks:
        mark, style = ("yes", "green") if check.ok else ("MISSING", "bold red") if check.needed else ("no", "yellow")
        table.add_row(Text(mark, style=style), check.name, Text(check.detail), Text(check.cure))
    return table


def self_test_table(results: Iterable[SelfTestResult]) -> Table:
    """What the evaluator enforces, by the samples that show it."""
    table = table_of(("", "mechanism", "sample", "expected", "got", "detail"))
    for one in results:
        mark, style = ("yes", "green") if one.ok else ("NO", "bold red")
        mark, style = (mark, style) if one.promised else ("-", "yellow")
        table.add_row(Text(mark, style=style), one.mechanism, one.sample, one.expected, one.got, Text(one.detail))
    return table
