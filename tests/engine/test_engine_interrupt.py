"""Ctrl-C: once to stop cleanly, twice to stop at once; either way the run can be resumed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from engine_material import IDEAS, coa, events, wiring, write_script

from pike import engine
from pike.core.events import Judged, Proposed, QueryAnswered, QuerySent, Stopped, Told

ANSWERS = [
    IDEAS,
    *[coa(f"valid {3 + i}ms", f"coa {i}", delay_seconds=0.01) for i in range(7)],
    *[{"step": step, **coa("valid 3ms", f"late {step}", delay_seconds=3.0)} for step in range(5, 60)],
]
"""A model that answers four steps quickly and the others late."""


def interrupted(folder: Path, llm: str, judge_seconds: float, signals: int) -> dict[str, Any]:
    here = Path(__file__).parent
    command = [sys.executable, str(here / "interrupt_driver.py"), str(folder), llm, str(judge_seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=here)
    assert process.stdout
    assert process.stdout.readline() == "judging\n"
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    out = process.stdout.read()
    assert process.wait(timeout=20) == 0
    return dict(json.loads(out))


@pytest.mark.parametrize("signals", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_best_so_far_is_kept_and_the_run_can_be_resumed(tmp_path: Path, signals: int) -> None:
    """The first waits for answers that are paid; the second loses those in flight."""
    llm = write_script(tmp_path / "s.json", ANSWERS)
    began = time.monotonic()
    result = interrupted(tmp_path / "run", llm, 0.5 if signals == 1 else 5.0, signals)
    assert time.monotonic() - began < 30
    assert (result["finished"], result["stopped"]) == (False, "interrupted")
    assert result["resume_command"] == f"pike resume {tmp_path / 'run'}"
    seen = events(tmp_path / "run")
    assert sum(isinstance(event, Stopped) for event in seen) == 1
    in_hand = {event.candidate.id for event in seen if isinstance(event, Proposed)}
    judged = {event.candidate_id for event in seen if isinstance(event, Judged)}
    if signals == 1:
        assert judged == in_hand, "what was in hand has been judged"
        assert result["best"] is not None
    else:
        assert judged < in_hand

    write_script(tmp_path / "s.json", [{**answer, "delay_seconds": 0.0} for answer in ANSWERS])
    resumed = engine_resume(tmp_path / "run")
    assert (resumed.finished, resumed.spend.queries) == (True, 40)
    seen = events(tmp_path / "run")
    answered = [event.step_id for event in seen if isinstance(event, QueryAnswered)]
    assert len(answered) == len(set(answered))
    told = [event.step_id for event in seen if isinstance(event, Told)]
    assert len(told) == len(set(told)) == 41
    sent = sum(isinstance(event, QuerySent) for event in seen)
    assert resumed.uncertain.calls == sent - len(answered), "given-up calls may have been charged: it is said"
    assert signals == 2 or resumed.uncertain.calls == 0, "an answer in flight is waited for and never paid twice"
    assert len(answered) == 41
    assert (
        any(re.match(r"waiting for \d answers? in flight \(Ctrl-C again", line) for line in result["said"])
        or signals == 2
    )


@pytest.mark.slow
def test_a_call_that_fails_while_the_run_stops_is_not_tried_again(tmp_path: Path) -> None:
    failing = {"delay_seconds": 1.0, "errors": [500], "retry_after_seconds": 100.0}
    lines = [*ANSWERS[:5], *[{"step": step, **coa("valid 3ms", f"late {step}"), **failing} for step in range(5, 60)]]
    began = time.monotonic()
    result = interrupted(tmp_path / "run", write_script(tmp_path / "s.json", lines), 0.5, 1)
    assert time.monotonic() - began < 30
    assert (result["finished"], result["stopped"]) == (False, "interrupted")


def engine_resume(folder: Path) -> engine.RunResult:
    import asyncio

    return asyncio.run(engine.resume_run(folder, wiring()))
