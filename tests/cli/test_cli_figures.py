"""`pike figures` as a user meets it: files, the list, and what it says where it cannot draw."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pike.cli.main import run

RUN = Path(__file__).resolve().parents[1] / "store" / "assets" / "journal_v1_models"


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_a_recorded_run_is_drawn_in_every_format_with_its_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["figures", str(RUN), "--out", str(tmp_path), "--only", "tree", "--only", "tasks"]) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"{one}.{end}" for one in ("tree", "tasks") for end in ("png", "pdf", "svg", "csv")} | {
        "tasks.md",
        "tasks.tex",
    }
    assert (tmp_path / "tree.pdf").read_bytes().startswith(b"%PDF")
    assert "2 figures in" in capsys.readouterr().out


def test_the_same_run_gives_the_same_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert run(["figures", str(RUN), "--out", str(tmp_path / name), "--only", "tree"]) == 0
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_the_list_says_what_is_missing_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["figures", str(RUN), "--list", "--json"]) == 0
    found = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["figures"]}
    assert found["tree"]["missing"] == "" and found["tree"]["files"] == []
    assert "holds the price" in found["trajectories-dollars"]["missing"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--format", "gif"], "png, pdf, svg, not as 'gif'"),
        (["--only", "trees"], "did you mean 'tree'?"),
        (["--only", "roofline"], "pike figures --list"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["figures", str(RUN), "--out", str(tmp_path), *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error and len(error.strip().splitlines()) == 1


def test_a_folder_without_results_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["figures", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.slow
def test_without_the_extra_the_cure_is_named(tmp_path: Path) -> None:
    code = "import sys; sys.modules['matplotlib'] = None; from pike.cli.main import run; sys.exit(run(sys.argv[1:]))"
    done = python(code, "figures", str(RUN), "--out", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.strip() == "pike: Figures are drawn by matplotlib: pip install 'pike-torch[figures]'."
    assert python(code, "figures", str(RUN), "--list").returncode == 0


def test_matplotlib_is_imported_only_to_draw() -> None:
    code = (
        "import sys, pike, pike.cli.main as cli; pike.figures; cli.run(['figures', sys.argv[1], '--list', '--json']); "
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert python(code, str(RUN)).returncode == 0
