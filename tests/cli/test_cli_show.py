"""The tables that end a run, a verdict and an estimate."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console, RenderableType

from pike import Check, Estimate
from pike.api.views import RunResult
from pike.cli.display import run as runs
from pike.cli.display import verdict as verdicts
from pike.cli.look.doctor import checks_table
from pike.cli.look.estimate import estimate_table
from pike.core.accounts import Uncertain
from pike.core.device import DeviceFacts
from pike.core.recipe_history import declined, recipe_history
from pike.core.settings.budget import Budget, Spend
from pike.core.step import Candidate
from pike.core.verdict.evaluation import DeviceState, Evaluation, OutputError, Status, Timing, WorstInputs
from pike.core.verdict.profile import Ceilings, Hotspot, Profile


def valid(speedup: float, low: float) -> Evaluation:
    timing = Timing(41.26, 41.26 / speedup, speedup, (low, 2 * speedup - low), 12, 240, 0.01)
    return Evaluation(Status.VALID, timing=timing, error=OutputError(1.2e-6, 3e-7, 1e-5, 4e-6), device="cpu")


RESULT = RunResult(
    task="demo/resnet18",
    name="ResNet-18 [b]",
    folder="runs/my run",
    strategy="pike-b",
    models=(("coa", "none"),),
    finished=True,
    stopped="queries",
    best=Candidate("c3", "source", author="recipes", note="[bold]channels-last"),
    evaluation=valid(2.214, 2.1),
    finalists=(),
    spend=Spend(10, 1.5, 123_456),
    uncertain=Uncertain(),
    budget=Budget(10),
    counts=((Status.VALID, 8),),
    candidates=10,
    rounds=1,
    seconds=192.0,
    device=DeviceFacts("cpu", "cpu"),
    pike_version="0.1.0",
)
INTERRUPTED = replace(RESULT, finished=False, stopped="interrupted")
EMPTY = replace(RESULT, best=None, evaluation=None)


def text(*what: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=160, highlight=False)
    for one in what:
        console.print(one)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_run_is_one_row() -> None:
    row = text(runs.runs_table([runs.RunRow(RESULT, valid(1.65, 1.6))]))
    for cell in (
        "ResNet-18 [b]",
        "41.3 ms",
        "25.0 ms (1.65×)",
        "18.6 ms",
        "2.21×",
        "2.10 to 2.33",
        "1.2e-06",
        " 10 ",
        "3 min 12 s",
    ):
        assert cell in row, cell


def test_queries_are_calls_to_models() -> None:
    recipes = text(runs.runs_table([runs.RunRow(RESULT, None)]))
    assert "candidates" in recipes and "queries" not in recipes
    asked = replace(RESULT, models=(("coa", "openai:a"),), spend=Spend(27))
    both = text(runs.runs_table([runs.RunRow(RESULT, None), runs.RunRow(asked, None)]))
    assert "queries" in both and " 27 " in both
    assert "candidates" in text(estimate_table(Estimate(50, 0, 0, 0, 0.0, 1.0, (), "queries", ())))


def test_what_was_not_measured_is_said() -> None:
    refused = Evaluation(Status.BUILD_ERROR, "no compiler")
    assert text(runs.runs_table([runs.RunRow(RESULT, None), runs.RunRow(EMPTY, refused)])).count("not measured") == 2


def test_a_finished_run_says_who_won_and_where_the_files_are() -> None:
    closing = text(*runs.closing_lines(RESULT, Path("runs/my run/report.html")))
    for words in ("c3 by recipes: [bold]channels-last", "$1.50", "123,456 tokens", "best.py", "report.html"):
        assert words in closing
    assert "resume" not in closing


def test_an_interrupted_run_says_how_to_go_on() -> None:
    closing = text(*runs.closing_lines(INTERRUPTED, Path("report.html")))
    assert "Stopped: interrupted. Continue with:  pike resume 'runs/my run'" in closing
    assert "the search's" in closing


def test_a_win_within_the_noise_is_not_called_one() -> None:
    noise = replace(RESULT, evaluation=valid(1.02, 0.99))
    closing = text(*runs.closing_lines(noise, Path("report.html")))
    assert "The original stays" in closing
    assert "1.02×" in closing
    assert "best.py" not in closing
    row = text(runs.runs_table([runs.RunRow(noise, None)]))
    assert "1.00×" in row
    assert "1.02×" not in row


def test_each_composition_of_recipes_says_what_it_brought() -> None:
    judged = [
        (Candidate("c1", "a", recipes=("half", "compile")), valid(2.0, 1.9)),
        (Candidate("c2", "b", recipes=("compile",)), valid(1.5, 1.4)),
        (Candidate("c3", "c", recipes=("bf16",)), Evaluation(Status.WRONG_OUTPUT, "output 0 is off by 3")),
        (Candidate("c4", "d", recipes=("sdpa", "half")), valid(3.0, 2.9)),
    ]
    steps = recipe_history(judged)
    assert [one.gained for one in steps] == [2.0, None, None, 1.5]
    result = replace(RESULT, recipe_history=steps, declined=declined("tf32: it is no GPU: really"))
    table = text(runs.history_table(result))
    assert "tf32" not in table
    assert "1 recipe does not apply; the page says why." in text(*runs.closing_lines(result, Path("report.html")))
    for words in (
        "half + compile",
        "+100%",
        "+50%",
        "wrong-output: output 0 is off by 3",
    ):
        assert words in table


def test_a_run_without_a_valid_candidate_says_so() -> None:
    stopped = replace(EMPTY, finished=False, stopped="interrupted")
    assert "No candidate was valid so far" in text(*runs.closing_lines(stopped, Path("report.html")))


def test_exit_codes() -> None:
    assert [runs.exit_code(result) for result in (RESULT, EMPTY, INTERRUPTED)] == [0, 1, 130]
    assert [runs.exit_code(replace(INTERRUPTED, stopped=why)) for why in ("provider", "infra")] == [3, 3]
    judged = [valid(2, 1.9), Evaluation(Status.WRONG_OUTPUT), Evaluation(Status.INFRA_ERROR)]
    assert [verdicts.exit_code(one) for one in judged] == [0, 1, 3]


def test_a_verdict_shows_error_and_what_was_allowed() -> None:
    error = OutputError(0.5, 0.1, 1e-5, 4e-6, vacuous=True)
    shown = text(verdicts.verdict_table(Evaluation(Status.WRONG_OUTPUT, "off by [0.5]", error=error)))
    for words in ("wrong-output", "off by [0.5]", "5.0e-01 largest", "1.0e-05", "vacuous"):
        assert words in shown


def test_an_unknown_price_is_not_shown_as_free() -> None:
    estimate = Estimate(300, 301, 1000, 2000, None, 4.5, (("coa", "openai:x"),), "tokens", ("a guess",))
    shown = text(estimate_table(estimate))
    assert "unknown price" in shown
    assert "$" not in shown
    assert "4 h 30 min" in shown


def test_several_models_of_a_role_are_shown_as_a_choice() -> None:
    models = (("coa", "openai:x"), ("coa", "openai:y"), ("efa", "openai:z"))
    shown = text(estimate_table(Estimate(300, 301, 1000, 2000, 1.0, 4.5, models, "queries", ())))
    assert "coa: openai:x or openai:y, efa: openai:z" in shown


def test_what_is_missing_stands_out_only_if_it_is_needed() -> None:
    checks = [
        Check("torch", False, True, "not installed", "pip install torch"),
        Check("GPU", False, False, "none", ""),
        Check("g++", True, False, "found", ""),
    ]
    shown = text(checks_table(checks))
    assert shown.count("MISSING") == 1
    assert "pip install torch" in shown


def test_a_disturbed_measurement_is_not_passed_off_as_sound() -> None:
    assert "unreliable" not in text(*runs.closing_lines(RESULT, Path("report.html")))
    timing = valid(2.2, 2.0).timing
    assert timing is not None
    disturbed = replace(valid(2.2, 2.0), timing=replace(timing, contention=0.61))
    words = "in 61% of the time"
    assert words in text(*runs.closing_lines(replace(RESULT, evaluation=disturbed), Path("report.html")))
    assert words in text(verdicts.verdict_table(disturbed))
    beside_kernels = replace(valid(2.2, 2.0), labels=("kernels-of-others",))
    assert "Kernels of other programs" in text(verdicts.verdict_table(beside_kernels))


def test_the_clocks_of_a_gpu_are_shown_where_they_are_known() -> None:
    state = DeviceState(1980.0, 1755.0, 2619.0, 71.0, 402.4, ("power cap",), (("power brake", 1),))
    found = valid(2.0, 1.9)
    assert found.timing is not None
    cool = text(verdicts.verdict_table(replace(found, timing=replace(found.timing, state=state, dropped_blocks=1))))
    for words in (
        "1,980 → 1,755 MHz, memory 2,619 MHz, at most 71 °C, 402 W",
        "1 block by power brake",
        "1 more dropped",
    ):
        assert words in cool, cool
    unknown = replace(found, timing=replace(found.timing, state=DeviceState()), labels=("clocks-not-known",))
    assert "clocks-not-known" in text(verdicts.verdict_table(unknown))
    assert "MHz" not in text(verdicts.verdict_table(unknown))


def test_the_least_gain_and_the_first_call_are_shown_where_they_were_measured() -> None:
    found = valid(2.0, 1.9)
    assert found.timing is not None
    worst = WorstInputs("outliers", 0.5, (0.4, 0.6))
    cold = replace(found.timing, worst=worst, first_call_ms=1e6, reference_first_call_ms=1.0)
    seconds = (("build", 1.0), ("load", 0.5), ("first-call", 2.0))
    shown = text(verdicts.verdict_table(replace(found, timing=cold, seconds=seconds, held_bytes=5_000_000)))
    assert "3.5 s, 5.00 MB held" in shown
    assert "0.50× on inputs with outliers" in shown
    assert "pays after" in shown
    lost = replace(cold, candidate_ms=cold.reference_ms, worst=None)
    assert "never pays" in text(verdicts.verdict_table(replace(found, timing=lost)))
    assert "first call" not in text(verdicts.verdict_table(found))


def test_a_profile_is_shown_with_its_figures_and_the_judges_note() -> None:
    profile = Profile(
        source="torch profiler (cuda)",
        note="Checked.",
        hotspots=(Hotspot("[bold red]gemm[/]", 0.8, 2.0), Hotspot("relu", 0.2, 1.5)),
        busy_share=0.9,
        launches=3.0,
        peak_bytes=64 << 20,
        operations=10**9,
        bytes_per_second=1.234e12,
        operations_per_second=4.5e13,
        ceilings=Ceilings(3.0e12, 9.0e13),
    )
    seen = text(verdicts.profile_table(profile), verdicts.profile_words(profile))
    assert "80.0%" in seen and "[bold red]gemm[/]" in seen and "1.5" in seen
    assert "1.23 TB/s (41.1% of the device's), 45.0 TFLOP/s (50.0% of the device's)" in seen
    assert "busy 90% of a call, 3 launches a call, 64 MiB at most. Checked." in seen
    assert json.dumps(profile.flat())


def test_the_end_says_what_each_baseline_takes_beside_the_best() -> None:
    refused = Evaluation(Status.RUNTIME_ERROR, "no compiler")
    lines = text(
        *runs.closing_lines(
            replace(RESULT, baselines=(("compile", valid(1.65, 1.6)), ("tensorrt", refused))), Path("p")
        )
    )
    assert "The baseline compile takes 25.0 ms in the same sessions, 1.34× as long." in lines
    assert "The baseline tensorrt could not be measured: runtime-error: no compiler" in lines
