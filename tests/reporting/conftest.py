"""The runs of `report_runs` as fixtures."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_runs import LARGE, TOKEN, large_run, started_run, whole_run
from simulated_campaign import write_campaign

from pike.core.events import Event, RunStarted
from pike.reporting import write
from pike.reporting.figures.choice import DrawingTerms, draw_all
from pike.store import Journal


@pytest.fixture
def started() -> RunStarted:
    return started_run()


@pytest.fixture
def events() -> list[Event]:
    return whole_run()


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages") / "runs"
    for name, events in {"whole": whole_run(), "large": large_run(LARGE)}.items():
        with Journal.create(folder / name) as journal:
            journal.append(*events)
    write(folder / "whole")
    return folder


@pytest.fixture(scope="session")
def url(runs: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "pike", "serve", str(runs), "--port", "0"]
    environment = {**os.environ, "PIKE_SERVE_TOKEN": TOKEN}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    yield line.split(" at ")[1].split("/;")[0]
    process.send_signal(signal.SIGINT)
    process.wait(20)


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished campaign of three strategies and a baseline on four tasks, twice, from the simulator."""
    return write_campaign(tmp_path_factory.mktemp("simulated") / "campaign")


@pytest.fixture(scope="session")
def drawn(simulated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All figures of the simulated campaign, with published numbers; workers side by side draw them once."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with (folder / "drawing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "drawn").exists():
            out = tmp_path_factory.mktemp("drawn")
            draw_all([simulated], out, ["png"], DrawingTerms(published=True))
            (folder / "drawn").symlink_to(out)
    return folder / "drawn"
