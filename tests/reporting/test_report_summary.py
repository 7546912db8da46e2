"""Figures of a run, computed from real journals: whole, cut off anywhere, resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from report_runs import ORIGINAL_SOURCE, attempt, call, refused, valid

from pike.core.errors import UserError
from pike.core.events import Asked, Event, Finished, JournalEntry, Proposed, Resumed, RunStarted, Stopped
from pike.core.step import Candidate, Role, Step
from pike.core.verdict.evaluation import Status
from pike.reporting import State, summarise
from pike.reporting.fold import fold
from pike.reporting.lineage import changed_lines, lineage
from pike.store import Journal


def journalled(folder: Path, events: list[Event]) -> Path:
    with Journal.create(folder) as journal:
        for event in events:
            journal.append(event)
    return folder


def entries(events: list[Event], seconds_apart: float = 1.0) -> list[JournalEntry]:
    return [JournalEntry(number, 1000 + number * seconds_apart, event) for number, event in enumerate(events, 1)]


def test_a_finished_run(tmp_path: Path, events: list[Event]) -> None:
    run = summarise(journalled(tmp_path / "run", events))
    assert run.state is State.FINISHED
    assert run.stop_reason == "queries"
    assert run.best is not None
    assert run.best.candidate.id == "c6"
    assert run.best.speedup == 2.6, "the reported number is the one measured at the end"
    assert run.spend.queries == 6, "brainstorming is free, the step without an answer is not"
    assert run.spend.usd == pytest.approx(6 * 0.02)
    assert run.spend.tokens == 6 * 1200
    assert run.rounds == 2
    assert run.ideas == ("fuse everything", "use half precision")
    assert dict(run.statuses) == {Status.VALID: 4, Status.BUILD_ERROR: 1, Status.WRONG_OUTPUT: 1}
    assert [(step.id, why) for step, why in run.failures] == [(5, "the provider gave up: 503 overloaded")]


def test_the_trajectory_counts_outcomes_known_so_far(events: list[Event]) -> None:
    run = fold(entries(events))
    assert [(p.candidate_id, p.queries, p.best) for p in run.points] == [
        ("r-compile", 0, 1.5),
        ("c1", 1, 2.0),
        ("c3", 3, 2.0),
        ("c6", 6, 3.0),
    ]
    assert [p.usd for p in run.points] == pytest.approx([0.0, 0.04, 0.08, 0.12])
    assert [p.seconds for p in run.points] == sorted(p.seconds for p in run.points)


def test_fix_attempts_and_what_stayed_broken(events: list[Event]) -> None:
    run = fold(entries(events))
    assert run.fix_attempts == ((0, 2), (1, 1)), "two right at once, one after a fix; the seed is not counted"
    assert run.never_valid == 1, "sample 2 of round 0; sample 1 was repaired"


def test_spend_by_role(events: list[Event]) -> None:
    summary = fold(entries(events))
    roles = {spend.role: spend for spend in summary.roles}
    assert len(summary.calls) == sum(spend.calls for spend in summary.roles)
    assert sum(call.usd or 0.0 for call in summary.calls) == pytest.approx(summary.spend.usd)
    assert sum(call.input_tokens + call.output_tokens for call in summary.calls) == summary.spend.tokens
    assert set(roles) == {Role.BRAINSTORM, Role.OPTIMISE, Role.FIX}
    assert (roles[Role.OPTIMISE].calls, roles[Role.OPTIMISE].failed) == (4, 1)
    assert roles[Role.FIX].models == ("model-a",)


def test_an_unknown_price_is_counted_apart(started: RunStarted) -> None:
    step = Step(0, Role.OPTIMISE)
    run = fold(entries([started, Asked(step), *call(step, usd=None)]))
    assert (run.spend.usd, run.spend.unpriced, run.spend.tokens) == (0.0, 1, 1200)


def test_finalists_keep_both_numbers(events: list[Event]) -> None:
    finalists = fold(entries(events)).finalists
    assert [(e.candidate.id, e.search and e.search.speedup, e.final and e.final.speedup) for e in finalists] == [
        ("c6", 3.0, 2.6),
        ("c1", 2.0, 2.1),
        ("c3", 1.8, None),
    ]


def test_every_beginning_of_a_run_can_be_read(events: list[Event]) -> None:
    for length in range(1, len(events) + 1):
        run = fold(entries(events[:length]))
        finished = isinstance(events[length - 1], Finished)
        assert run.state is State.FINISHED if finished else run.state is not State.FINISHED
        assert run.spend.queries <= 6


def test_a_killed_run_reports_its_best_so_far(tmp_path: Path, events: list[Event]) -> None:
    until_fix = next(i for i, e in enumerate(events) if isinstance(e, Proposed) and e.step_id == 4)
    run = summarise(journalled(tmp_path / "run", events[: until_fix + 1]))
    assert run.state is State.UNFINISHED
    assert run.best is not None
    assert (run.best.candidate.id, run.best.speedup) == ("c1", 2.0)
    assert run.entrants[-1].verdict is None


def test_a_journal_still_being_written_can_be_read(tmp_path: Path, events: list[Event]) -> None:
    with Journal.create(tmp_path / "run") as journal:
        journal.append(*events[:8])
        assert summarise(tmp_path / "run").state is State.UNFINISHED


def test_calls_lost_with_a_process_are_reported_not_charged(started: RunStarted) -> None:
    first, second = Step(0, Role.OPTIMISE), Step(1, Role.OPTIMISE, sample=1)
    events = [started, Asked(first), call(first)[0], Asked(second), *call(second), Resumed("0.1.0"), *call(first)]
    run = fold(entries(events))
    assert (run.uncertain.calls, run.uncertain.usd) == (1, 0.1)
    assert run.spend.usd == pytest.approx(0.04)
    assert run.resumed == 1


def test_pauses_between_processes_are_not_running_time(started: RunStarted) -> None:
    run = fold(
        [
            JournalEntry(1, 100.0, started),
            JournalEntry(2, 110.0, Stopped("interrupted")),
            JournalEntry(3, 9000.0, Resumed("0.1.0")),
        ]
    )
    assert run.seconds == 10.0
    assert (run.state, run.stop_reason) == (State.UNFINISHED, "")


def test_why_asking_stopped_outlives_a_kill_while_finalists_are_measured(started: RunStarted) -> None:
    """The search is over, so the process that resumes the run does not write the reason again."""
    events = [started, Stopped("queries"), Resumed("0.1.0"), Finished(None)]
    run = fold(entries(events))
    assert (run.state, run.stop_reason) == (State.FINISHED, "queries")


def test_a_run_without_a_valid_candidate(started: RunStarted) -> None:
    events = [started, *attempt(Step(0, Role.OPTIMISE), "x = 1", refused()), Stopped("queries"), Finished(None)]
    run = fold(entries(events))
    assert run.best is None
    assert run.points == ()
    assert run.never_valid == 1


def test_a_folder_without_a_run_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        summarise(tmp_path / "nowhere")


def test_an_empty_journal_is_a_user_error(tmp_path: Path) -> None:
    Journal.create(tmp_path / "run").close()
    with pytest.raises(UserError, match="has not begun"):
        summarise(tmp_path / "run")


def test_the_lineage_goes_through_the_fixed_candidate(events: list[Event]) -> None:
    run = fold(entries(events))
    assert [link.entrant.candidate.id for link in lineage(run, "c3")] == ["c2", "c3"]
    links = lineage(run, "c6")
    named = [(link.entrant.derived_from, link.entrant.candidate.id) for link in links]
    assert named == [("original", "c1"), ("c1", "c6")]
    assert links[1].changed_lines == 1


def test_a_lineage_that_bites_its_tail_ends(started: RunStarted) -> None:
    events: list[Event] = [started]
    for step_id, parent in ((0, "c1"), (1, "c0")):
        step = Step(step_id, Role.OPTIMISE, seed=parent)
        events += [Asked(step), Proposed(step_id, replace(Candidate(f"c{step_id}", "x"), parent=parent))]
    assert len(lineage(fold(entries(events)), "c0")) == 2
    assert lineage(fold(entries(events)), "unknown") == ()


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (ORIGINAL_SOURCE, ORIGINAL_SOURCE, 0),
        ("x = 1\n", "# why\nx = 1  # because\n\n", 0),
        ("x = '# no comment'\n", "x = '# another'\n", 2),
        ("", "x = 1\ny = 2\n", 2),
        ("not (python\n", "not (python either\n", 2),
    ],
)
def test_changed_lines_ignore_comments_and_blanks(before: str, after: str, lines: int) -> None:
    assert changed_lines(before, after) == lines


def test_a_verdict_for_the_best_so_far_prefers_the_final_number(events: list[Event]) -> None:
    run = fold(entries(events[:-1]))
    assert run.best is not None
    assert run.best.speedup == valid(2.6).speedup
