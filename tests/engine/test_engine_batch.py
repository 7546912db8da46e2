"""`kill -9` while a vendor works on a batch: the next process collects it, and nothing is paid twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import batch_driver
import pytest
from engine_material import answer, events

from pike.core.accounts import Uncertain
from pike.core.events import BatchSent, QueryAnswered, QuerySent
from pike.core.settings.config import LlmConfig
from pike.engine.state.resume import read_state
from pike.llm import connect, vendors
from pike.llm.fake_server import FakeReply, FakeServer

HERE = Path(__file__)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    replies = [FakeReply(answer(f"valid {9 - i}ms", f"try {i}"), input_tokens=900, output_tokens=90) for i in range(8)]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-good")
    monkeypatch.setattr(vendors, "VENDORS", vendors.VENDORS)  # put back afterwards
    with FakeServer(replies, models=["claude-opus-4-6"]) as server:
        yield server


def begin_and_kill(folder: Path, server: FakeServer) -> None:
    """Begin a run in another process, and kill it once it waits for its batch."""
    server.batches.held = True
    words = [sys.executable, str(HERE.with_name("batch_driver.py")), str(folder), server.root]
    paths = os.pathsep.join([str(HERE.parent), *sys.path])
    child = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": paths})
    deadline = time.monotonic() + 60
    while server.batches.looks < 2 and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.05)
    assert child.poll() is None and server.batches.looks >= 2
    child.send_signal(signal.SIGKILL)
    child.wait()
    server.batches.held = False


@pytest.mark.slow
def test_a_killed_run_collects_its_batch_and_pays_nothing_twice(server: FakeServer, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    begin_and_kill(folder, server)
    assert (server.batches.jobs, len(server.requests)) == (1, 4)
    dead = read_state(folder)
    assert sorted(dead.batches) == sorted(dead.steps) and dead.accounts.uncertain.calls == 4

    batch_driver.play(server.root)
    result = asyncio.run(batch_driver.run(folder))
    assert result.finished and result.spend.queries == 8 and result.uncertain == Uncertain()
    assert len(server.requests) == 8, "each query was run once"
    seen = events(folder)
    paid = Counter(event.step_id for event in seen if isinstance(event, QueryAnswered))
    assert set(paid.values()) == {1} and len(paid) == 8
    alone = connect(batch_driver.MODEL.removeprefix("batch:"), LlmConfig()).price()
    assert alone and result.spend.usd == pytest.approx(8 * alone.usd(900, 90) / 2), "half the listed price"
    first = next(event for event in seen if isinstance(event, BatchSent))
    assert first.handle == "" and seen.index(first) > max(
        seen.index(event) for event in seen[: seen.index(first) + 1] if isinstance(event, QuerySent)
    )
    assert "sk-good" not in "".join(event.handle for event in seen if isinstance(event, BatchSent))
    assert read_state(folder).batches == {}
