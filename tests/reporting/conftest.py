"""The runs of `report_runs` as fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_runs import started_run, whole_run
from simulated_campaign import write_campaign

from pike.core.events import Event, RunStarted
from pike.reporting.figures.choice import draw_all


@pytest.fixture
def started() -> RunStarted:
    return started_run()


@pytest.fixture
def events() -> list[Event]:
    return whole_run()


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished campaign of three strategies and a baseline on four tasks, twice, from the simulator."""
    return write_campaign(tmp_path_factory.mktemp("simulated") / "campaign")


@pytest.fixture(scope="session")
def drawn(simulated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All figures of the simulated campaign, with published numbers."""
    out = tmp_path_factory.mktemp("drawn")
    draw_all([simulated], out, ["png"], published_too=True)
    return out
