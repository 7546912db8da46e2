"""Runs on offer without models or judges."""

from __future__ import annotations

from pathlib import Path

import pytest
from server_material import MODEL

from pike import server
from pike.api.external import ExternalRuns
from pike.api.options import Options
from pike.engine.executors.instant import InstantExecutor


@pytest.fixture
def offer(tmp_path: Path) -> server.Offer:
    (tmp_path / "tiny.py").write_text(MODEL)
    terms = Options(strategy="agent", query_budget=3, settings=("engine.finalists=1",))
    return server.Offer(tmp_path / "runs", (str(tmp_path / "tiny.py"),), terms)


@pytest.fixture
def external() -> ExternalRuns:
    return ExternalRuns(InstantExecutor(), load=None)
