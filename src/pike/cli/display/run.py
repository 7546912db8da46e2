"""How a run that ended looks on a terminal, and which exit code it has.

Texts of a candidate or a provider are plain, never markup. Does not know where figures come from.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from pike.api.runs import Optimized
from pike.api.views import RunResult, RunSummary, summarise
from pike.cli.terminal import Terminal, table_of
from pike.core import figures
from pike.core.events import Stopped
from pike.core.verdict.evaluation import Evaluation

INFRASTRUCTURE = frozenset({"provider", "infra"})
"""Reasons to stop that are the outside world's."""
WAITING, ELSEWHERE = "waiting", "elsewhere"
"""Reasons to stop of a run that waits for an external answer, and for verdicts of another machine."""
COMPILE = "compile"
"""The recipe, and the baseline, that is `torch.compile` in its default mode and nothing else."""
NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in the table that ends it."""

    result: RunResult
    compiled: Evaluation | None

    @property
    def compiled_text(self) -> str:
        """Time and speedup of plain `torch.compile`."""
        if self.compiled is None or self.compiled.timing is None:
            return NOT_MEASURED
        return f"{figures.ms(self.compiled.candidate_ms)} ({figures.times(self.compiled.speedup)})"


def row_of(result: RunResult, summary: RunSummary) -> RunRow:
    """The row of a run, with the verdict on plain `torch.compile` where the run has one.

    That measured beside the finalists comes before that of the search.
    """
    plain = [entrant.search for entrant in summary.entrants if entrant.candidate.recipes == (COMPILE,)]
    verdicts = [dict(result.baselines).get(COMPILE), *plain]
    return RunRow(result, next((one for one in verdicts if one is not None and one.valid), None))


def runs_table(rows: Sequence[RunRow]) -> Table:
    """The outcomes of runs, one row each."""
    asked, compiled = any(row.result.asks_models for row in rows), any(row.compiled for row in rows)
    measured = ("best", "speedup", "95 % interval", "largest error", "candidates", *(("queries",) if asked else ()))
    table = table_of(("model",), ("eager", *(("torch.compile",) if compiled else ()), *measured, "time"))
    for row in rows:
        evaluation, improved = row.result.evaluation, row.result.improved
        timing = evaluation.timing if evaluation else None
        error = evaluation.error if evaluation and improved else None
        best_ms = None if timing is None else timing.candidate_ms if improved else timing.reference_ms
        table.add_row(
            Text(row.result.name),
            figures.ms(timing.reference_ms if timing else row.result.original_ms),
            *((row.compiled_text,) if compiled else ()),
            figures.ms(best_ms),
            Text(figures.times(row.result.speedup), style="bold green" if improved else "bold"),
            figures.interval(timing.speedup_ci95 if timing and improved else None),
            figures.error(error.max_abs if error else None),
            figures.count(row.result.candidates),
            *((figures.count(row.result.spend.queries),) if asked else ()),
            figures.duration(row.result.seconds),
        )
    return table


def history_table(result: RunResult) -> Table:
    """The compositions of recipes, each with its gain over the best before it."""
    table = table_of(("recipes",), ("speedup", "gained"), more_words=("why not",))
    for one in result.recipe_history:
        gained = f"+{one.gained - 1:.0%}" if one.gained else ""
        why = "" if one.speedup is not None else f"{one.status.value}: {one.reason}"
        style = "green" if one.gained else "dim" if one.speedup is None else ""
        speedup = "" if one.speedup is None else figures.times(one.speedup)
        table.add_row(Text(" + ".join(one.recipes), style=style), speedup, gained, Text(why.partition("\n")[0]))
    return table


def closing_lines(result: RunResult, page: Path | None) -> Iterable[Text]:
    """The lines below the table: the winner, the cost, the files, and how to go on."""
    if result.best is not None:
        words = f"{result.best.id} by {result.best.author}: {result.best.note}".rstrip(": ")
        yield Text(f"The best is {words}" if result.improved else _original_stays(result, words))
        if not result.finished:
            yield Text("Its number is the search's; a finished run measures its best candidates again.")
    elif result.stopped == WAITING:
        yield Text("The run waits for an answer.")
    elif result.stopped == ELSEWHERE:
        yield Text("The run waits for verdicts of another machine.")
    elif not result.finished:
        yield Text("No candidate was valid so far; the page says what refused each.")
    yield from map(Text, _beside(result))
    if warning := figures.disturbance(result.evaluation):
        yield Text(warning, style="yellow")
    if result.declined:
        do = "does" if len(result.declined) == 1 else "do"
        yield Text(f"{figures.plural(len(result.declined), 'recipe')} {do} not apply; the page says why.", style="dim")
    if result.spend.usd or result.spend.unpriced:
        yield Text(f"Spent {figures.usd(result.spend.usd)} and {figures.count(result.spend.tokens)} tokens.")
    for note in result.notes:
        yield Text(f"{note}.", style="yellow")
    if result.best_path is not None:
        yield Text(f"best      {result.best_path}")
    yield Text(f"page      {page or f'pike report {shlex.quote(result.folder)} writes it'}")
    yield Text(f"run       {result.folder}")
    if result.resume_command:
        ended = not result.stopped or Stopped(result.stopped).for_good
        why = "no process of this machine works on it" if ended else result.stopped
        yield Text(f"Stopped: {why}. Continue with:  {result.resume_command}", style="bold")


def _original_stays(result: RunResult, words: str) -> str:
    """Say that nothing beat the original, and how near the fastest valid candidate came."""
    timing = result.evaluation.timing if result.evaluation else None
    measured = f"{figures.times(timing.speedup)} ({figures.interval(timing.speedup_ci95)})" if timing else "nothing"
    return (
        "The original stays: no valid candidate was faster beyond the measurement's uncertainty. "
        f"The fastest measured {measured}: {words}"
    )


def _beside(result: RunResult) -> Iterable[str]:
    """What each baseline takes in the sessions of the finalists, a sentence each."""
    best = result.evaluation.timing if result.evaluation else None
    for name, verdict in result.baselines:
        if verdict.timing is None or best is None:
            yield f"The baseline {name} could not be measured: {verdict.status.value}: {verdict.reason}"
            continue
        taken = verdict.timing.candidate_ms
        ours = best.candidate_ms if result.improved else best.reference_ms
        times = figures.times(taken / ours)
        yield f"The baseline {name} takes {figures.ms(taken)} in the same sessions, {times} as long."


def finish(terminal: Terminal, done: Optimized) -> None:
    """Print the outcome of a run and exit.

    The exit code is 0 for a valid candidate, and for a run that waits for an external answer. It is
    1 for a finished run without a valid candidate, and 130 for an interrupted one. It is 3 if a
    provider or a judge failed for good.
    """
    show(terminal, done.result)
    raise typer.Exit(exit_code(done.result))


def show(terminal: Terminal, result: RunResult) -> None:
    """The outcome of a run by now, for people or for programs."""
    folder = Path(result.folder)
    if result.recipe_history:
        terminal.show(history_table(result))
    terminal.show(runs_table([row_of(result, summarise(folder))]))
    page = folder / "report.html"
    terminal.show(*closing_lines(result, page if page.is_file() else None))
    terminal.result(result.flat())


def exit_code(result: RunResult) -> int:
    """The exit code of `finish`."""
    if result.stopped in (WAITING, ELSEWHERE):
        return 0
    if not result.finished:
        return 3 if result.stopped in INFRASTRUCTURE else 130
    return 0 if result.best is not None else 1
