"""How a run looks while it goes on."""

from __future__ import annotations

import io
from contextlib import suppress
from dataclasses import replace

import pytest
from rich.console import Console

from pike.api.views import Activity, Progress
from pike.cli.display.live import fresh
from pike.cli.display.progress import Watcher
from pike.core.accounts import Uncertain
from pike.core.settings.budget import Budget, Spend
from pike.core.step import Role
from pike.core.verdict.evaluation import Status


def snapshot(
    *events: str, best: float | None = 2.214, usd: float = 0.25, active: tuple[Activity, ...] = ()
) -> Progress:
    return Progress(
        task="ResNet-18 [batch 2]",
        phase="searching",
        round=2,
        spend=Spend(12, usd, 40_000, 1),
        uncertain=Uncertain(),
        budget=Budget(30, 5.0),
        best_speedup=best,
        best_id="c7" if best else None,
        reference_ms=41.26,
        active=active,
        counts=((Status.VALID, 5), (Status.BUILD_ERROR, 2)),
        events=events,
        stopped="",
    )


def test_the_panel_says_what_of_the_time_is_kept_for_the_finalists() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=160)
    watcher = Watcher(console)
    console.print(watcher.panel(replace(snapshot(), limit_seconds=72.0, kept_seconds=24.0)))
    assert "of 1 min 12 s, 24 s kept for the finalists" in written(console).replace("24.0 s", "24 s")
    assert "kept for the finalists" not in written(console).split("24")[0]


def plain() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=200)


def written(console: Console) -> str:
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_without_a_terminal_each_event_is_one_line() -> None:
    console = plain()
    with Watcher(console, clock=iter(range(100)).__next__) as watcher:
        watcher(snapshot("c1: round 0, from original"))
        watcher(snapshot("c1: round 0, from original"))
        watcher(snapshot("c1: round 0, from original", "c1: 1.80x [not markup]"))
    lines = written(console).splitlines()
    assert len(lines) == 2
    assert "c1: 1.80x [not markup]" in lines[1]
    assert "12/30 queries, $0.2500, best 2.21×" in lines[1]
    assert "\x1b" not in written(console)


@pytest.mark.parametrize(
    ("most", "line", "row"), [(10, "5/10 candidates", "5 of 10"), (None, "5 candidates", "candidates")]
)
def test_steps_of_recipes_are_candidates_and_no_queries(most: int | None, line: str, row: str) -> None:
    recipes = replace(snapshot("x"), asks_models=False, candidates=5, most_candidates=most)
    for console, words in ((plain(), line), (Console(file=io.StringIO(), force_terminal=True, width=100), row)):
        with Watcher(console) as watcher:
            watcher(recipes)
        assert words in written(console)
        assert "queries" not in written(console)


def test_before_anything_is_valid_there_is_no_best() -> None:
    console = plain()
    with Watcher(console) as watcher:
        watcher(snapshot("asked for ideas", best=None, usd=0.0))
    assert "best –" in written(console)
    assert "$" not in written(console)


def test_on_a_terminal_a_panel_shows_everything() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=40)
    activities = (
        *(Activity(f"c{i}", Role.OPTIMISE, 2, i, 0, "build") for i in range(11)),
        Activity("c20", Role.FIX, 2, 3, 4, "fixing"),
        Activity("r-compile", None, 0, 0, 0, "time"),
    )
    with Watcher(console) as watcher:
        watcher(snapshot("c9: build-error", active=activities))
    text = written(console)
    for words in (
        "ResNet-18 [batch 2]",
        "searching, round 2",
        "12 of 30",
        "$0.2500 of $5.00",
        "1 call of unknown price",
        "2.21×",
        "41.3 ms",
        "judged: building",
        "being fixed",
        "fix 4",
        "and 1 more",
        "build-error 2",
        "c9: build-error",
    ):
        assert words in text, words


def test_the_panel_leaves_no_trace_on_the_terminal_when_it_fails() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=40)
    with suppress(RuntimeError), Watcher(console) as watcher:
        watcher(snapshot("x"))
        raise RuntimeError
    assert "\x1b[?25h" in written(console), "the cursor is shown again"


@pytest.mark.parametrize(
    ("seen", "now", "lines"),
    [
        ((), ("a",), ("a",)),
        (("a",), ("a",), ()),
        (("a", "b"), ("b", "c", "d"), ("c", "d")),
        (("a", "b"), ("c", "d"), ("c", "d")),
        (("a", "a"), ("a", "a", "a"), ("a",)),
    ],
)
def test_only_new_lines_are_written(seen: tuple[str, ...], now: tuple[str, ...], lines: tuple[str, ...]) -> None:
    assert fresh(seen, now) == lines


def test_the_panel_estimates_the_end_from_the_pace_and_the_limits() -> None:
    now = [0.0]
    watcher = Watcher(plain(), clock=lambda: now[0])

    def said(progress: Progress) -> str:
        console = Console(file=io.StringIO(), force_terminal=True, width=100)
        console.print(watcher.panel(progress))
        return written(console)

    assert "not known yet" in said(replace(snapshot(), spend=Spend(0, 0.0)))
    now[0] = 10.0
    assert "about 20.0 s, then the finalists" in said(replace(snapshot(), spend=Spend(10, 0.0)))
    assert "about 2.5 s, then the finalists" in said(replace(snapshot(), spend=Spend(10, 4.0))), "money ends first"
    assert "at most 15.0 s" in said(replace(snapshot(), spend=Spend(10, 0.0), limit_seconds=25.0))
    assert "past its limit" in said(replace(snapshot(), limit_seconds=9.0))
    assert "at most 2.0 s" in said(replace(snapshot(), spend=Spend(0, 0.0), limit_seconds=25.0, earlier_seconds=13.0))
    assert "measured again" in said(replace(snapshot(), phase="measuring"))
