"""`kill -9` at random moments: no paid query is lost, none is paid twice, and the result is the same."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_material import IDEAS, coa, efa, events, write_script
from zygote import Zygote

from pike.core.errors import UserError
from pike.core.events import Asked, Event, Finished, Judged, Proposed, QueryAnswered, QuerySent, Resumed, Told
from pike.engine.state.resume import read_state

KILLS = 20


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


def by_step() -> list[dict[str, Any]]:
    """Answers that follow the step's number, so that every step has its own."""
    slow = {"delay_seconds": 0.004}
    return [
        {**IDEAS, **slow},
        *[coa(f"valid {3 + i}ms final {9 - i}ms" if i % 3 else "build-error", f"coa {i}", **slow) for i in range(7)],
        *[efa(f"valid {2 + i}ms" if i % 2 else "wrong-output", f"efa {i}", **slow) for i in range(5)],
    ]


def by_prompt() -> list[dict[str, Any]]:
    """Answers that follow the prompt alone, so that they do not depend on the order of asking; nor do their tokens."""
    slow = {"delay_seconds": 0.004, "input_tokens": 1000}
    return [
        {**IDEAS, **slow},
        coa("build-error", "first", regex="fuse everything", **slow),
        coa("valid 6ms", "second", regex="half precision", **slow),
        coa("valid 5ms final 7ms", "third", regex="capture a graph", **slow),
        coa("valid 4ms final 4ms", "from second", contains="mark = 'second'", **slow),
        coa("wrong-output", "from third", contains="mark = 'third'", **slow),
        coa("valid 3ms final 8ms", "from fixed", contains="mark = 'fixed first'", **slow),
        efa("valid 7ms", "fixed first", contains="mark = 'first'", **slow),
        efa("runtime-error", "fixed third", contains="mark = 'from third'", **slow),
        coa("valid 9ms", "other", **slow),
        efa("runtime-error", "other fix", **slow),
    ]


def has_begun(folder: Path) -> bool:
    try:
        return bool(events(folder))
    except UserError:
        return False


def decisions(seen: list[Event]) -> list[Event]:
    return [event for event in seen if isinstance(event, Asked | Told)]


def places(folder: Path) -> Counter[tuple[Any, ...]]:
    """What was tried where and what came of it, without the ids, which count in order of asking."""
    state = read_state(folder)
    found = Counter[tuple[Any, ...]]()
    for asked in state.steps.values():
        step, candidate = asked.step, asked.candidate
        verdict = state.solutions[candidate.id].evaluation if candidate else None
        place = (step.role, step.round, step.sample, step.attempt, step.idea)
        found[(*place, candidate.source if candidate else None, verdict)] += 1
    return found


def check_money(folder: Path) -> None:
    """Every step was paid once, and the total is what the answers cost."""
    seen = events(folder)
    answered = [event for event in seen if isinstance(event, QueryAnswered)]
    steps = Counter(event.step_id for event in answered)
    assert max(steps.values()) == 1, "a query was paid twice"
    done = set[int]()
    for event in seen:
        if isinstance(event, QuerySent):
            assert event.query.step_id not in done, "a paid query was sent again"
        if isinstance(event, QueryAnswered):
            done.add(event.step_id)
    state = read_state(folder)
    assert state.accounts.spend.usd == pytest.approx(sum(event.answer.usd or 0 for event in answered))
    sent = sum(isinstance(event, QuerySent) for event in seen)
    assert state.accounts.uncertain.calls == sent - len(answered)


def check_verdicts(folder: Path) -> None:
    """Nothing was judged twice in the search, and every outcome was told once."""
    seen = events(folder)
    judged = Counter((event.candidate_id, event.effort) for event in seen if isinstance(event, Judged))
    told = Counter(event.step_id for event in seen if isinstance(event, Told))
    proposed = Counter(event.step_id for event in seen if isinstance(event, Proposed))
    assert set(proposed.values()) == {1}
    assert set(judged.values()) == {1}
    assert set(told.values()) == {1}
    assert sum(isinstance(event, Finished) for event in seen) == 1


@pytest.mark.parametrize(
    ("answers", "concurrency"),
    [pytest.param(by_step(), 1, id="serial", marks=pytest.mark.slow), pytest.param(by_prompt(), 4, id="parallel")],
)
def test_killed_at_random_points(
    zygote: Zygote, tmp_path: Path, answers: list[dict[str, Any]], concurrency: int
) -> None:
    llm = write_script(tmp_path / "s.json", answers, input_usd_per_mtok=1.0, output_usd_per_mtok=10.0)
    order = {"llm": llm, "queries": 18, "concurrency": concurrency}
    began = time.monotonic()
    assert zygote.run({**order, "folder": str(tmp_path / "whole")}) == 0
    seconds = time.monotonic() - began
    whole = json.loads((tmp_path / "whole" / "result.json").read_text())

    rng, kills, runs, resumed = random.Random(concurrency), 0, 0, 0
    while kills < KILLS:
        folder = tmp_path / f"killed{runs}"
        runs += 1
        code, killed_here = -9, 0
        while code == -9:
            # Early and late moments, and only so often that a run ends at some time.
            patience = rng.uniform(0.05, 0.6) * seconds if killed_here < 8 else None
            code = zygote.run({**order, "folder": str(folder)}, patience)
            kills += code == -9
            killed_here += code == -9
        assert code == 0
        resumed += any(isinstance(event, Resumed) for event in events(folder))
        result = json.loads((folder / "result.json").read_text())
        for name in ("finished", "stopped", "speedup", "counts", "candidates", "rounds"):
            assert result[name] == whole[name], name
        # Money is added up in the order in which answers came.
        assert result["spend"] == pytest.approx(whole["spend"])
        check_money(folder)
        check_verdicts(folder)
        assert places(folder) == places(tmp_path / "whole")
        if concurrency == 1:
            assert result["best"] == whole["best"]
            assert decisions(events(folder)) == decisions(events(tmp_path / "whole"))
    assert kills >= KILLS
    assert resumed, "every run was killed before it began"
