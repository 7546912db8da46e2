"""A finished run."""

from __future__ import annotations

from pathlib import Path

import pytest
from exchange_runs import ANSWERS, make_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with valid, refused and repaired candidates."""
    return make_run(tmp_path / "run", ANSWERS, 14)
