"""Trackers against their real local stores; each test is skipped where its package is missing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from exchange_runs import ANSWERS, answer, make_run, parts

from pike import engine
from pike.api.waiting import watched
from pike.cli import main
from pike.exchange.trackers.metrics import Metrics, once
from pike.reporting import summarise
from pike.store import read

Capture = pytest.CaptureFixture[str]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "exchange.md"


def documented(table: str) -> set[str]:
    """The names in a table of the reference, by the head of its first column."""
    rows = PAGE.read_text().partition(f"| {table} |")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `([^`]+)`", rows, re.MULTILINE))


SERIES, ONCE = documented("series"), documented("known once")
ALONE = {"MLFLOW_TRACKING_URI", "WANDB_DIR", "WANDB_MODE", "TRACKIO_DIR"}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ALONE:
        monkeypatch.delenv(name, raising=False)


def needs(package: str) -> Any:
    return pytest.importorskip(package, reason=f"the package {package} is not installed")


def exported(folder: Path, to: str, capsys: Capture) -> dict[str, Any]:
    assert main.run(["export", str(folder), "--to", to, "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return said


def points(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Every series that a tracker is told, from the journal."""
    metrics, series = Metrics(), dict[str, list[tuple[int, float]]]()
    for entry in read(folder):
        for point in metrics.take(entry):
            for name, value in point.values.items():
                series.setdefault(name, []).append((point.step, value))
    return series


def test_every_series_has_two_points_and_a_documented_name(folder: Path) -> None:
    series = points(folder)
    assert set(series) == set(SERIES)
    assert all(len(found) >= 2 for found in series.values())
    speedups = [value for _, value in series["speedup/best"]]
    assert speedups == sorted(speedups)
    best = summarise(folder).best
    assert best is not None and best.search is not None and speedups[-1] == best.search.speedup
    assert {name for name in once(summarise(folder)) if not name.startswith("status/")} == set(ONCE)


def test_a_series_of_one_point_is_none(tmp_path: Path) -> None:
    run = make_run(tmp_path / "one", ANSWERS[:1], 1)
    assert points(run) == {}
    metrics = Metrics()
    for entry in read(run):
        metrics.take(entry)
    assert metrics.single()["speedup/best"] == 2.5


def test_mlflow_keeps_series_artefacts_and_one_run(folder: Path, capsys: Capture) -> None:
    needs("mlflow")
    from mlflow import MlflowClient

    address = exported(folder, "mlflow", capsys)["path"]
    assert exported(folder, "mlflow", capsys)["path"] == address
    client = MlflowClient(address)
    experiment = client.get_experiment_by_name("pike")
    assert experiment is not None
    [run] = client.search_runs([experiment.experiment_id])
    assert set(run.data.metrics) == set(SERIES), "what is known once is no series"
    for name, expected in points(folder).items():
        history = client.get_metric_history(run.info.run_id, name)
        assert sorted((one.step, one.value) for one in history) == sorted(expected)
    best = summarise(folder).best
    assert best is not None and run.data.tags["final/speedup"] == str(best.speedup)
    assert run.data.params["task"] == "level3/8_Tiny"
    kept = {Path(one.path).name for one in client.list_artifacts(run.info.run_id, "candidates")}
    assert kept == {f"{one.candidate.id}.py" for one in summarise(folder).entrants}
    local = client.download_artifacts(run.info.run_id, f"candidates/{best.candidate.id}.py")
    assert Path(local).read_text() == best.candidate.source


def test_tensorboard_reads_its_events_back(folder: Path, capsys: Capture) -> None:
    needs("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    exported(folder, "tensorboard", capsys)
    events = EventAccumulator(exported(folder, "tensorboard", capsys)["path"])
    events.Reload()
    assert set(events.Tags()["scalars"]) == set(SERIES)
    for name, expected in points(folder).items():
        assert sorted((one.step, pytest.approx(one.value)) for one in events.Scalars(name)) == sorted(expected)
    [result] = events.Tensors("result/text_summary")
    assert b"final/speedup" in result.tensor_proto.string_val[0]
    best = summarise(folder).best
    assert best is not None
    [source] = events.Tensors(f"candidates/{best.candidate.id}.py/text_summary")
    assert best.candidate.source.encode() in source.tensor_proto.string_val[0]


def wandb_records(content: bytes) -> Iterator[bytes]:
    """The records of an offline run: LevelDB's log format behind a header of seven bytes."""
    assert content.startswith(b":W&B")
    place, record = 7, b""
    while place + 7 <= len(content):
        left = 32_768 - place % 32_768
        if left < 7:
            place += left
            continue
        size, kind = struct.unpack("<HB", content[place + 4 : place + 7])
        record += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def test_wandb_writes_a_run_offline(folder: Path, capsys: Capture) -> None:
    needs("wandb")
    from wandb.proto import wandb_internal_pb2

    path = Path(exported(folder, "wandb", capsys)["path"])
    assert path.name.startswith("offline-run-")
    [file] = path.glob("*.wandb")
    series, summary, artefacts = dict[str, int](), dict[str, Any](), []
    for data in wandb_records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        for item in record.history.item:
            name = item.key or "/".join(item.nested_key)
            series[name] = series.get(name, 0) + 1
        summary |= {item.key or "/".join(item.nested_key): item.value_json for item in record.summary.update}
        if record.request.HasField("log_artifact"):
            artefacts.append(record.request.log_artifact.artifact)
        if record.HasField("artifact"):
            artefacts.append(record.artifact)
    assert {name: series.get(name) for name in SERIES} == {name: len(found) for name, found in points(folder).items()}
    best = summarise(folder).best
    assert best is not None and json.loads(summary["final/speedup"]) == best.speedup
    assert "candidates" in {one.type for one in artefacts}


def test_trackio_keeps_series_in_its_store(folder: Path) -> None:
    needs("trackio")
    # The package reads TRACKIO_DIR when it is imported, so each look is a process of its own.
    export = [sys.executable, "-m", "pike", "export", str(folder), "--to", "trackio", "--json"]
    said = json.loads(subprocess.run(export, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    code = """
import json
from trackio.sqlite_storage import SQLiteStorage
[run] = SQLiteStorage.get_runs("pike")
print(json.dumps([run, SQLiteStorage.get_logs("pike", run)]))
"""
    environment = {**os.environ, "TRACKIO_DIR": said["path"]}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    name, rows = json.loads(done.stdout.splitlines()[-1])
    assert name.startswith("run-")
    for series, expected in points(folder).items():
        assert sorted((row["step"], row[series]) for row in rows if series in row) == sorted(expected)
    kept = [path for path in Path(said["path"]).rglob("*") if path.is_file() and "artifacts" in path.parts]
    best = summarise(folder).best
    assert best is not None and any(path.read_bytes() == best.candidate.source.encode() for path in kept)


def tracked(folder: Path, name: str) -> engine.RunResult:
    """A run that a tracker follows."""
    task, config, wiring = parts(folder, [*ANSWERS, answer("coa", "valid 3ms", "fourth")], 8)
    with watched(None, False, folder, [name]) as observer:
        return asyncio.run(engine.start(task, config, folder, engine.Wiring(**{**wiring, "observer": observer})))


def test_a_tracker_follows_a_run_to_its_end(tmp_path: Path, capsys: Capture) -> None:
    needs("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert tracked(tmp_path / "run", "tensorboard").finished
    assert capsys.readouterr().err == ""
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    for name, expected in points(tmp_path / "run").items():
        assert len(events.Scalars(name)) == len(expected)
    [result] = events.Tensors("result/text_summary")
    assert b"finished" in result.tensor_proto.string_val[0]


def test_a_tracker_that_fails_leaves_the_run_whole(tmp_path: Path, capsys: Capture) -> None:
    needs("tensorboard")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "tensorboard").write_text("in the way")
    assert tracked(tmp_path / "run", "tensorboard").finished
    said = capsys.readouterr().err
    assert said.startswith("pike: Tracking with tensorboard failed") and said.count("\n") == 1
    assert f"pike export {tmp_path / 'run'} --to tensorboard" in said


@pytest.mark.parametrize(
    ("name", "words"), [("mlfow", "did you mean 'mlflow'"), ("mlflow", "pip install 'pike-torch[mlflow]'")]
)
def test_a_tracker_that_is_not_there_is_one_sentence(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.chdir(tmp_path)
    assert main.run(["optimize", "demo/gpt_block", "--track", name, "--out", "run"]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
