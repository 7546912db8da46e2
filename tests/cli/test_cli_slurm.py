"""`pike slurm` without a cluster: the script that it writes, and what it says where there is no Slurm."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from test_cli_runs import TASK

from pike.cli import main


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "a study.toml").write_text('[campaign]\ntasks = ["task.py"]\ncontenders = ["eager"]\n')
    return tmp_path / "a study.toml"


def test_a_script_is_written_that_bash_understands(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--nodes", "2", "--gpus-per-node", "4", "--time", "1:00:00", "--sbatch=--partition=gpu"]
    assert main.run(["slurm", study.name, *options, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    script = Path(made["script"])
    assert (made["job"], script.parent) == ("", study.parent / "runs")
    asked = [line.removeprefix("#SBATCH --") for line in script.read_text().splitlines() if line.startswith("#SBATCH")]
    assert {"nodes=2", "gpus-per-node=4", "time=1:00:00", "signal=B:TERM@300", "requeue", "partition=gpu"} <= set(asked)
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_where_there_is_no_slurm_one_sentence_says_so(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(study.parent))
    assert main.run(["slurm", study.name, "--submit"]) == 2
    assert "There is no sbatch here" in capsys.readouterr().err
    assert main.run(["slurm", "missing.toml"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_several_files_are_an_array_and_settings_go_with_each(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (study.parent / "b.toml").write_text(study.read_text())
    assert main.run(["slurm", study.name, "b.toml", "--set", "evaluate.sandbox=podman", "--json"]) == 0
    script = Path(json.loads(capsys.readouterr().out)["script"]).read_text()
    assert "#SBATCH --array=0-1\n" in script
    assert "\nSETTINGS=(--set evaluate.sandbox=podman)\n" in script


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--time", "soon"], "'soon' is none of Slurm"),
        (["--time", "0:05:00"], "300 s"),
        (["--time", "2-"], "none of Slurm"),
        (["--time", "0"], "0 s"),
        (["--nodes", "0"], "nodes"),
        (["--gpus-per-node", "-1"], "gpus-per-node"),
        (["--set", "engine.executr=ray"], "executr"),
        (["missing.toml"], "missing.toml"),
        (["a study.toml"], "rename"),
    ],
)
def test_bad_input_is_one_sentence(
    options: list[str], says: str, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["slurm", study.name, *options]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said
    assert not (study.parent / "runs").exists()


@pytest.mark.parametrize("time", ["30", "10:30", "1-0", "1-00:30", "0:10:00"])
def test_slurms_times_are_understood(time: str, study: Path) -> None:
    assert main.run(["slurm", study.name, "--time", time]) == 0
