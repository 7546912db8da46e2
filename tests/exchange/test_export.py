"""`pike export` as a user runs it: traces, a data set, KernelBench's layout, and imports of exports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from foreign_runs import TASK, checkpoint

from pike.cli import main
from pike.reporting import summarise

Capture = pytest.CaptureFixture[str]


def exported(capsys: Capture, *arguments: object) -> dict[str, Any]:
    """What `pike export --json` says."""
    assert main.run(["export", *map(str, arguments), "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_traces_hold_prompt_answer_verdict_and_reward(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    said = exported(capsys, folder, "--to", "jsonl", "--out", tmp_path / "out")
    rows = [json.loads(line) for line in Path(said["path"]).read_text().splitlines()]
    assert len(rows) == said["traces"] == summarise(folder).spend.queries
    for row in rows:
        assert TASK in row["prompt"] and row["answer"] and row["model"] == "tester"
        verdict = row["status"]
        assert row["reward"] == (pytest.approx(0.3 + row["speedup"]) if verdict == "valid" else 0.0)
    assert {row["status"] for row in rows} == {"valid", "build-error"}
    measured = [row for row in rows if row["measured_again"]]
    best = summarise(folder).best
    assert best is not None and best.speedup == max(row["speedup"] for row in measured)
    repaired = next(row for row in rows if row["role"] == "efa" and row["status"] == "valid")
    mended = next(row for row in rows if row["candidate"] == repaired["parent"])
    assert "third" in repaired["source"] and mended["status"] == "build-error"


def test_traces_without_a_verdict_have_no_reward(tmp_path: Path, capsys: Capture) -> None:
    source = tmp_path / "source"
    assert main.run(["import", str(checkpoint(source)), "--out", str(tmp_path / "runs")]) == 0
    [run] = (tmp_path / "runs").iterdir()
    capsys.readouterr()
    [row] = [json.loads(line) for line in Path(exported(capsys, run, "--to", "jsonl")["path"]).read_text().splitlines()]
    assert (row["imported"], row["system"], row["prompt"], row["answer"]) == (
        "OpenEvolve",
        "be quick",
        "make it fast",
        "done",
    )
    assert row["reward"] == pytest.approx(2.3)


def test_a_run_without_answers_has_no_traces(tmp_path: Path, capsys: Capture) -> None:
    from foreign_runs import shinka

    database = shinka(tmp_path / "results/programs.sqlite")
    import sqlite3

    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE programs SET metadata = '{}'")
    assert main.run(["import", str(database), "--out", str(tmp_path / "runs")]) == 0
    [run] = (tmp_path / "runs").iterdir()
    capsys.readouterr()
    assert main.run(["export", str(run), "--to", "jsonl"]) == 2
    assert "no traces" in capsys.readouterr().err
    assert not (run / "traces.jsonl").exists()


def test_a_data_set_opens_in_its_own_package(folder: Path, capsys: Capture) -> None:
    datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
    said = exported(capsys, folder, "--to", "hf-dataset")
    data = datasets.load_from_disk(said["path"])
    assert len(data) == said["traces"]
    assert {"prompt", "answer", "status", "reward"} <= set(data.column_names)
    assert max(row["reward"] for row in data) > 0.3
    assert exported(capsys, folder, "--to", "hf-dataset") == said, "an export replaces its own"


def test_kernelbench_finds_its_files(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    """The names and keys that its loader, its evaluation and its analysis read."""
    said = exported(capsys, folder, "--to", "kernelbench", "--out", tmp_path / "out")
    root = Path(said["path"])
    assert (said["level"], said["problem_id"], said["run_name"]) == (3, 8, "run")
    assert (root / "KernelBench/level3/8_Tiny.py").read_text() == TASK
    results = json.loads((root / "runs/run/eval_results.json").read_text())["8"]
    assert [result["sample_id"] for result in results] == list(range(said["samples"]))
    for result in results:
        assert {"compiled", "correctness", "metadata", "runtime", "runtime_stats"} < set(result)
        assert (root / f"runs/run/level_3_problem_8_sample_{result['sample_id']}_kernel.py").is_file()
        assert (result["runtime"] > 0) == result["correctness"] <= result["compiled"]
    best = summarise(folder).best
    assert best is not None and best.verdict is not None and best.verdict.timing is not None
    assert (root / "runs/run/level_3_problem_8_sample_0_kernel.py").read_text() == best.candidate.source
    [times] = (root / "results/timing").glob("*/baseline_time_torch.json")
    mean = json.loads(times.read_text())["level3"]["8_Tiny.py"]["mean"]
    assert mean / results[0]["runtime"] == pytest.approx(
        best.verdict.timing.reference_ms / best.verdict.timing.candidate_ms
    )


def test_an_export_replaces_its_own_and_nothing_else(folder: Path, capsys: Capture) -> None:
    root = Path(exported(capsys, folder, "--to", "kernelbench")["path"])
    (root / "left-over").write_text("")
    exported(capsys, folder, "--to", "kernelbench")
    assert not (root / "left-over").exists()
    (root / "pike.json").unlink()
    assert main.run(["export", str(folder), "--to", "kernelbench"]) == 2
    assert "something else" in capsys.readouterr().err
    assert (root / "runs").is_dir()


def test_an_exported_checkpoint_comes_back(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("openevolve", reason="the package openevolve is not installed")
    path = exported(capsys, folder, "--to", "openevolve")["path"]
    assert main.run(["import", path, "--out", str(tmp_path / "runs")]) == 0
    [run] = (tmp_path / "runs").iterdir()
    before, after = summarise(folder), summarise(run)
    assert before.best is not None and before.best.search is not None and after.best is not None
    assert after.task.id == before.task.id
    assert after.best.candidate.source.strip() == before.best.candidate.source.strip()
    assert after.best.speedup == pytest.approx(before.best.search.speedup)
    capsys.readouterr()
    assert exported(capsys, run, "--to", "openevolve")["programs"] == len(after.entrants) + 1
