"""The runs of `report_runs` as fixtures."""

from __future__ import annotations

import pytest
from report_runs import started_run, whole_run

from pike.core.events import Event, RunStarted


@pytest.fixture
def started() -> RunStarted:
    return started_run()


@pytest.fixture
def events() -> list[Event]:
    return whole_run()
