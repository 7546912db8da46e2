"""How the verdict on one candidate looks on a terminal, and which exit code it has.

Texts of a candidate are plain, never markup. Does not know how a verdict is reached.
"""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from pike.cli.terminal import Terminal, facts_table, table_of
from pike.core import figures
from pike.core.verdict.evaluation import DeviceState, Evaluation, Status
from pike.core.verdict.profile import Profile


def show_verdict(terminal: Terminal, verdict: Evaluation) -> None:
    """A verdict with its diagnostics and its profile, as far as it has them."""
    terminal.show(verdict_table(verdict))
    if verdict.profile:
        if verdict.profile.hotspots:
            terminal.show(profile_table(verdict.profile))
        terminal.show(profile_words(verdict.profile))
    if verdict.log and not verdict.valid:
        terminal.show(f"\n{verdict.log}", style="dim")


def exit_code(verdict: Evaluation) -> int:
    """0 valid, 1 refused, 3 the judge or its machine failed."""
    if verdict.status is Status.INFRA_ERROR:
        return 3
    return 0 if verdict.valid else 1


def verdict_table(evaluation: Evaluation) -> Table:
    """One verdict, fact by fact."""
    table = facts_table()
    timing, error = evaluation.timing, evaluation.error
    table.add_row("status", Text(evaluation.status.value, style="bold green" if evaluation.valid else "bold red"))
    if evaluation.reason:
        table.add_row("reason", Text(evaluation.reason))
    if timing:
        interval = figures.interval(timing.speedup_ci95)
        table.add_row("speedup", f"{figures.times(timing.speedup)} (95 % interval {interval})")
        table.add_row("time", f"{figures.ms(timing.reference_ms)} → {figures.ms(timing.candidate_ms)}")
        if timing.worst:
            least = f"{figures.times(timing.worst.speedup)} on inputs with {timing.worst.distribution}"
            table.add_row("least", f"{least} (95 % interval {figures.interval(timing.worst.speedup_ci95)})")
        if timing.first_call_ms is not None and timing.reference_first_call_ms is not None:
            first = f"{figures.ms(timing.reference_first_call_ms)} → {figures.ms(timing.first_call_ms)}"
            calls = timing.pays_after_calls
            pays = "never pays" if calls is None else f"pays after {figures.plural(calls, 'call')}" if calls else ""
            table.add_row("first call", f"{first}, {pays}" if pays else first)
        if evaluation.cold_start_seconds is not None:
            held = f", {figures.rate(evaluation.held_bytes, 'B')} held" if evaluation.held_bytes is not None else ""
            table.add_row("cold start", f"{figures.duration(evaluation.cold_start_seconds)}{held}")
        dropped = f", {timing.dropped_blocks} more dropped" if timing.dropped_blocks else ""
        table.add_row("measured", f"{timing.calls} calls in {figures.plural(timing.blocks, 'block')}{dropped}")
        for number, line in enumerate(_state_lines(timing.state)):
            table.add_row("" if number else "clocks", line)
        if warning := figures.disturbance(evaluation):
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
    """The clocks of a GPU and the reasons of spoiled blocks, as far as they are known."""
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
    """Where the time of a candidate goes; names are the candidate's own."""
    table = table_of((), ("share", "times"), Text(profile.source), more_words=("kernel or operator",))
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
