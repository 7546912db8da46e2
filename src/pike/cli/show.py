"""Tables of results for people.

Knows how verdicts, runs, estimates and checks look on a terminal. Does not know where they come from. Texts that a
candidate or a provider may have written are printed as plain text, never as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from pike.api import Check, Estimate, Trial
from pike.api.suites import Linted, LintVerdict, Slot, SuiteInfo, TaskInfo
from pike.api.views import PresetInfo, RunResult, RunSummary
from pike.core import figures
from pike.core.evaluation import DeviceState, Evaluation
from pike.core.lint import LintReport
from pike.core.profile import Profile

COMPILE_RECIPE = "compile"
"""The recipe that is `torch.compile` in its default mode and nothing else."""
NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Row:
    """One run in the table that ends it."""

    result: RunResult
    compiled: Evaluation | None

    @property
    def compiled_text(self) -> str:
        """Time and speedup of plain `torch.compile`, as the search measured it."""
        if self.compiled is None or self.compiled.timing is None:
            return NOT_MEASURED
        return f"{figures.ms(self.compiled.candidate_ms)} ({figures.times(self.compiled.speedup)})"


def row_of(result: RunResult, summary: RunSummary) -> Row:
    """The row of a run, with the verdict on plain `torch.compile` where the run has one."""
    plain = [entrant for entrant in summary.entrants if entrant.candidate.recipes == (COMPILE_RECIPE,)]
    valid = [e.search for e in plain if e.search is not None and e.search.valid]
    return Row(result, valid[0] if valid else None)


def runs_table(rows: Sequence[Row]) -> Table:
    """What runs came to, one row each."""
    table = Table()
    table.add_column("model", overflow="fold")
    for name in ("eager", "torch.compile", "best", "speedup", "95 % interval", "largest error", "queries", "time"):
        table.add_column(name, justify="right")
    for row in rows:
        evaluation, improved = row.result.evaluation, row.result.improved
        timing = evaluation.timing if evaluation else None
        error = evaluation.error if evaluation and improved else None
        best_ms = None if timing is None else timing.candidate_ms if improved else timing.reference_ms
        table.add_row(
            Text(row.result.name),
            figures.ms(timing.reference_ms if timing else None),
            row.compiled_text,
            figures.ms(best_ms),
            Text(figures.times(row.result.speedup), style="bold green" if improved else "bold"),
            figures.interval(timing.speedup_ci95 if timing and improved else None),
            figures.error(error.max_abs if error else None),
            figures.count(row.result.spend.queries),
            figures.duration(row.result.seconds),
        )
    return table


def disturbed(evaluation: Evaluation | None) -> str:
    """A warning where other programs disturbed the measurement, else nothing."""
    return figures.disturbance(evaluation) if evaluation else ""


def trail_table(result: RunResult) -> Table:
    """What each composition of recipes brought, one row each, with its gain over the best before it."""
    table = Table()
    table.add_column("recipes", overflow="fold")
    for name in ("speedup", "gained"):
        table.add_column(name, justify="right")
    table.add_column("why not", overflow="fold")
    for one in result.trail:
        gained = f"+{one.gained - 1:.0%}" if one.gained else ""
        why = "" if one.speedup is not None else f"{one.status.value}: {one.reason}"
        style = "green" if one.gained else "dim" if one.speedup is None else ""
        speedup = "" if one.speedup is None else figures.times(one.speedup)
        table.add_row(Text(" + ".join(one.recipes), style=style), speedup, gained, Text(why.partition("\n")[0]))
    for name, reason in result.declined:
        table.add_row(Text(name, style="dim"), "", "", Text(f"does not apply: {reason}", style="dim"))
    return table


def closing_lines(result: RunResult, page: Path) -> Iterable[Text]:
    """What else to know at the end of a run: who won, what it cost, where the files are, how to go on."""
    if result.best is not None:
        words = f"{result.best.id} by {result.best.author}: {result.best.note}".rstrip(": ")
        yield Text(f"The best is {words}" if result.improved else _original_stays(result, words))
        if not result.finished:
            yield Text("Its number is the search's; a finished run measures its best candidates again.")
    elif result.stopped == "waiting":
        yield Text("The run waits for an answer.")
    else:
        yield Text("No candidate was valid; the page says what refused each.")
    if warning := disturbed(result.evaluation):
        yield Text(warning, style="yellow")
    if result.spend.usd or result.spend.unpriced:
        yield Text(f"Spent {figures.usd(result.spend.usd)} and {figures.count(result.spend.tokens)} tokens.")
    for note in result.notes:
        yield Text(f"{note}.", style="yellow")
    if result.best_path is not None:
        yield Text(f"best      {result.best_path}")
    yield Text(f"page      {page}")
    yield Text(f"run       {result.folder}")
    if result.resume_command:
        yield Text(f"Stopped: {result.stopped}. Continue with:  {result.resume_command}", style="bold")


def _original_stays(result: RunResult, words: str) -> str:
    """That nothing beat the original, and how near the fastest valid candidate came."""
    timing = result.evaluation.timing if result.evaluation else None
    measured = f"{figures.times(timing.speedup)} ({figures.interval(timing.speedup_ci95)})" if timing else "nothing"
    return (
        "The original stays: no valid candidate was faster beyond the measurement's uncertainty. "
        f"The fastest measured {measured}: {words}"
    )


def verdict_table(evaluation: Evaluation) -> Table:
    """One verdict, fact by fact."""
    table = _facts()
    timing, error = evaluation.timing, evaluation.error
    table.add_row("status", Text(evaluation.status.value, style="bold green" if evaluation.valid else "bold red"))
    if evaluation.reason:
        table.add_row("reason", Text(evaluation.reason))
    if timing:
        interval = figures.interval(timing.speedup_ci95)
        table.add_row("speedup", f"{figures.times(timing.speedup)} (95 % interval {interval})")
        table.add_row("time", f"{figures.ms(timing.reference_ms)} → {figures.ms(timing.candidate_ms)}")
        dropped = f", {timing.dropped_blocks} more dropped" if timing.dropped_blocks else ""
        table.add_row("measured", f"{timing.calls} calls in {figures.plural(timing.blocks, 'block')}{dropped}")
        for number, line in enumerate(_state_lines(timing.state)):
            table.add_row("" if number else "clocks", line)
        if warning := disturbed(evaluation):
            table.add_row("", Text(warning, style="yellow"))
    if error:
        allowed = f"{figures.error(error.budget_max_abs)} and {figures.error(error.budget_rms)} allowed"
        table.add_row("error", f"{figures.error(error.max_abs)} largest, {figures.error(error.rms)} RMS; {allowed}")
        if error.vacuous:
            table.add_row("", Text("vacuous: an all-zero answer would pass this tolerance", style="yellow"))
    table.add_row("terms", f"tolerance {evaluation.tolerance.value}, precision {evaluation.precision.value}")
    table.add_row("weights", evaluation.weights.value)
    if evaluation.labels:
        table.add_row("labels", Text(", ".join(evaluation.labels)))
    table.add_row("device", Text(evaluation.device))
    table.add_row("sandbox", Text(evaluation.sandbox))
    table.add_row("took", ", ".join(f"{stage} {figures.duration(s)}" for stage, s in evaluation.seconds))
    return table


def _state_lines(state: DeviceState | None) -> Iterable[str]:
    """In what state a GPU was, and what spoiled blocks; nothing where that is not known."""
    if state is None or state.candidate_sm_mhz is None:
        return
    known = [f"{figures.count(state.reference_sm_mhz)} → {figures.count(state.candidate_sm_mhz)} MHz"]
    known += [f"memory {figures.count(state.memory_mhz)} MHz"] if state.memory_mhz is not None else []
    known += [f"at most {state.most_celsius:.0f} °C"] if state.most_celsius is not None else []
    known += [f"{state.most_watts:.0f} W"] if state.most_watts is not None else []
    yield ", ".join(known)
    if state.spoiled:
        yield "spoiled: " + ", ".join(f"{figures.plural(blocks, 'block')} by {why}" for why, blocks in state.spoiled)


def profile_table(profile: Profile) -> Table:
    """Where the time of a candidate goes; names are the candidate's own and printed as plain text."""
    table = Table(title=Text(profile.source))
    table.add_column("share", justify="right")
    table.add_column("times", justify="right")
    table.add_column("kernel or operator", overflow="fold")
    for hotspot in profile.hotspots:
        table.add_row(f"{hotspot.share:.1%}", f"{hotspot.calls:.4g}", Text(hotspot.name))
    return table


def profile_words(profile: Profile) -> Text:
    """The figures that belong to no kernel, and the judge's note."""
    words = [figures.rate(profile.bytes_per_second, "B/s", profile.bandwidth_share)]
    if profile.operations:
        words.append(figures.rate(profile.operations_per_second, "FLOP/s", profile.arithmetic_share))
    if profile.busy_share is not None:
        words.append(f"busy {profile.busy_share:.0%} of a call")
    if profile.launches is not None:
        words.append(f"{profile.launches:.4g} launches a call")
    if profile.peak_bytes:
        words.append(f"{profile.peak_bytes / (1 << 20):,.0f} MiB at most")
    return Text(f"{', '.join(words)}. {profile.note}")


def estimate_table(estimate: Estimate) -> Table:
    """What a run would take."""
    table = _facts()
    if estimate.calls:
        table.add_row("models", Text(_models(estimate.models)))
    table.add_row("queries", f"at most {figures.count(estimate.queries)}")
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


def checks_table(checks: Iterable[Check]) -> Table:
    """What works on this machine."""
    table = Table(show_lines=False)
    table.add_column("")
    for name in ("what", "found", "what to do"):
        table.add_column(name, overflow="fold")
    for check in checks:
        mark, style = ("yes", "green") if check.ok else ("MISSING", "bold red") if check.needed else ("no", "yellow")
        table.add_row(Text(mark, style=style), check.name, Text(check.detail), Text(check.cure))
    return table


def trials_table(trials: Iterable[Trial]) -> Table:
    """What the evaluator enforces, by the samples that show it."""
    table = Table(show_lines=False)
    table.add_column("")
    for name in ("mechanism", "sample", "owed", "got", "detail"):
        table.add_column(name, overflow="fold")
    for trial in trials:
        mark, style = ("yes", "green") if trial.ok else ("NO", "bold red")
        mark, style = (mark, style) if trial.promised else ("-", "yellow")
        table.add_row(Text(mark, style=style), trial.mechanism, trial.sample, trial.owed, trial.got, Text(trial.detail))
    return table


def presets_table(presets: Iterable[PresetInfo]) -> Table:
    """The strategies by name."""
    table = Table()
    for name in ("strategy", "what it is", "differs from"):
        table.add_column(name, overflow="fold")
    for preset in presets:
        differences = [f"{option}={value}" for option, value in preset.differences]
        differences += [f"a model of its own for {role}" for role in preset.own_models]
        compared = f"{preset.base}: " if preset.base else "options of its own: " if differences else "the default"
        differs = compared + ", ".join(differences)
        table.add_row(Text(preset.name, style="bold"), Text(preset.summary), Text(differs))
    return table


def lint_table(report: LintReport) -> Table:
    """The trivial answers that would pass, or where there are none those that need no model at all."""
    table = Table()
    table.add_column("")
    for name in ("answer", "why"):
        table.add_column(name, overflow="fold")
    for answer in report.passing or [one for one in report.answers if not one.name.startswith("without")]:
        mark, style = ("refused", "green") if answer.refused else ("PASSES", "bold red")
        table.add_row(Text(mark, style=style), Text(answer.name), Text(answer.reason))
    return table


def suites_table(suites: Iterable[SuiteInfo]) -> Table:
    """The suites that come with PIKE."""
    table = Table()
    table.add_column("suite")
    table.add_column("tasks", justify="right")
    for suite in suites:
        table.add_row(Text(suite.name, style="bold"), figures.count(suite.tasks))
    return table


def tasks_table(tasks: Iterable[TaskInfo]) -> Table:
    """Tasks with what they take and return."""
    table = Table()
    table.add_column("task", overflow="fold")
    table.add_column("parameters", justify="right")
    for name in ("inputs", "outputs", "lint"):
        table.add_column(name, overflow="fold")
    for task in tasks:
        known, outline = task.lint, task.outline
        style = "dim" if known is None else "green" if known.sound else "bold red"
        table.add_row(
            Text(task.id, style="bold"),
            "unknown" if outline.parameters is None else figures.count(outline.parameters),
            _slots(outline.inputs),
            _slots(outline.outputs),
            Text(lint_words(known), style=style),
        )
    return table


def lint_words(verdict: LintVerdict | None) -> str:
    """What is known of a task's lint, in a few words."""
    return verdict.words if verdict is not None else "not linted"


def linted_table(found: Iterable[Linted]) -> Table:
    """The tasks of a suite that are not sound, with what would pass."""
    table = Table()
    for name in ("task", "found", "would pass"):
        table.add_column(name, overflow="fold")
    for one in found:
        if one.verdict is None:
            table.add_row(Text(one.id), Text("not linted", style="bold red"), Text(one.problem))
        elif not one.verdict.sound:
            table.add_row(Text(one.id), Text(one.verdict.words, style="bold red"), Text("; ".join(one.verdict.passing)))
    return table


def _slots(slots: tuple[Slot, ...] | None) -> Text:
    """One value a line."""
    return Text("unknown" if slots is None else "\n".join(slot.text for slot in slots))


def _facts() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    return table
