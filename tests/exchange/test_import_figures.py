"""Imported runs as figures: every one that their data allow, and the reason for each other one."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from foreign_runs import archipelago, checkpoint, pike_data, shinka

from pike.cli import main
from pike.reporting.figures.registry import KINDS

ALWAYS = {
    *("speedups", "tasks", "trajectories-queries", "repairs-attempts", "steps-size", "steps-gain", "code-size"),
    *("code-size-tasks", "techniques", "similarity", "success", "tree"),
}
SOURCES: dict[str, tuple[Callable[[Path], Path], set[str]]] = {
    "data": (pike_data, {"repairs-cost"}),
    "checkpoint_2": (checkpoint, {"trajectories-minutes"}),
    "evolution.sqlite": (shinka, {"trajectories-minutes", "trajectories-dollars"}),
}
NEVER = {"islands", "models", "kernels", "roofline", "techniques-time", "time", "occupancy", "similarity-embeddings"}


def drawn(folders: list[Path], out: Path, capsys: pytest.CaptureFixture[str], *only: str) -> dict[str, str]:
    """Each figure with what is missing for it, of all kinds or of some."""
    words = ["figures", *map(str, folders), "--out", str(out), "--format", "svg", "--published", "--json"]
    assert main.run([*words, *(word for kind in only for word in ("--only", kind))]) == 0
    found = json.loads(capsys.readouterr().out)["figures"]
    assert {entry["kind"] for entry in found} == (set(only) or {kind.name for kind in KINDS})
    assert all(entry["missing"] or entry["files"] for entry in found)
    return {entry["name"]: entry["missing"] for entry in found}


def imported(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main.run(["import", str(SOURCES[name][0](folder / name)), "--out", str(folder / "runs" / name)]) == 0
    capsys.readouterr()
    [run] = (folder / "runs" / name).iterdir()
    return run


@pytest.mark.parametrize("name", SOURCES)
def test_every_figure_that_the_data_allow_is_drawn(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = drawn([imported(name, tmp_path, capsys)], tmp_path / "out", capsys)
    names = {figure for figure, missing in found.items() if not missing}
    assert names == ALWAYS | SOURCES[name][1]
    assert {figure for figure, missing in found.items() if missing} >= NEVER
    for figure in names:
        assert "<svg" in (tmp_path / "out" / f"{figure}.svg").read_text()
        assert len((tmp_path / "out" / f"{figure}.csv").read_text().splitlines()) > 1, figure


def test_islands_of_a_checkpoint_are_in_the_tree_and_in_a_figure_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = archipelago(tmp_path / "output/checkpoint_16")
    assert main.run(["import", str(source), "--out", str(tmp_path / "runs")]) == 0
    capsys.readouterr()
    [run] = (tmp_path / "runs").iterdir()
    assert not drawn([run], tmp_path / "out", capsys, "tree")["islands-openevolve"]
    with (tmp_path / "out" / "tree.csv").open() as file:
        rows = {row["candidate"]: row for row in csv.DictReader(file)}
    assert [rows[f"c{number}"]["island"] for number in range(4)] == ["1", "0", "", "0"], "what is broken lives nowhere"
    shown = (tmp_path / "out" / "tree.svg").read_text()
    assert "island 1" in shown and "island 2" in shown


def test_tools_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = drawn([imported(name, tmp_path, capsys) for name in SOURCES], tmp_path / "out", capsys, "steps")
    assert not found["steps-size"]
    with (tmp_path / "out" / "steps-size.csv").open() as file:
        contenders = {row["contender"] for row in csv.DictReader(file)}
    assert contenders == {"h100_level_3-pike_pike-b", "openevolve", "shinka"}
