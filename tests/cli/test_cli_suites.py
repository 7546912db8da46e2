"""`pike suites`: what others published, under a name of one's own, for every command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from made_up_judge import Judge

from pike import tasks
from pike.cli import main
from pike.core.errors import UserError

FILE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * {by}
def get_inputs():
    return [torch.randn(64, 64)]
def get_init_inputs():
    return []
"""


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=me", "-c", "user.email=me@example.com"]
    done = subprocess.run(["git", "-C", str(folder), *own, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in the layout of the paper's repository, and a configuration folder of one's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "theirs"
    for by, name in enumerate(("level3-pike/9_ResNet18", "level3-pike/10_Up", "level5/4_llama2", "level1/19_ReLU")):
        path = root / "KernelBench" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FILE.format(by=by + 2))
    git(tmp_path, "init", "-q", "theirs")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "published")
    return root


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]):
    """Runs `pike` and returns its exit code and what it printed."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main.run(list(words))
        out, err = capsys.readouterr()
        return code, out, " ".join(err.split())

    return run


def test_a_checkout_is_registered_once_with_its_commit_and_found_by_every_name(checkout: Path, said) -> None:
    code, shown, _ = said("suites", "add", "published", str(checkout), "--json")
    suites = {suite["name"]: suite for suite in json.loads(shown)["suites"]}
    assert code == 0 and sorted(suites) == ["level1:published", "level3-pike:published", "level5:published"]
    level3 = suites["level3-pike:published"]
    assert level3["commit"] == git(checkout, "rev-parse", "HEAD")[:12]
    assert level3["tasks"] == ["9_ResNet18", "10_Up"]
    assert all(len(digest) == 64 for digest in level3["files"].values()) and len(level3["files"]) == 2
    assert said("suites", "add", "kernelbench", str(checkout))[0] == 0
    _, shown, _ = said("suites")
    assert "kernelbench:level1" in shown and level3["commit"] in shown and "unchanged" in shown
    assert {"name": "level3-pike:published", "tasks": 2} in json.loads(said("tasks", "--json")[1])["suites"]
    assert (
        json.loads(said("tasks", "kernelbench:level1/19", "--json")[1])["tasks"][0]["id"]
        == "kernelbench:level1/19_ReLU"
    )
    task = tasks.resolve("level5:published/4")
    assert (task.id, task.import_paths) == ("level5:published/4_llama2", ())
    assert "level3-pike/9" not in {entry.name for entry in tasks.load_suite("level3-pike:published").entries}


@pytest.mark.slow
def test_the_verbs_take_a_registered_task(checkout: Path, tmp_path: Path, monkeypatch, said) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pike.engine.executors.gpus.start_judge", lambda *_: Judge())
    said("suites", "add", "published", str(checkout))
    (tmp_path / "candidate.py").write_text("# pike-instant: valid 5ms\nclass ModelNew: ...\n")
    code, shown, err = said("evaluate", "level5:published/4", "candidate.py", "--json")
    assert json.loads(shown)["status"] == "valid", err
    code, shown, err = said("suite", "level3-pike:published", "--contenders", "eager", "--out", "kept", "--json")
    assert code == 0, err
    names = {"level3-pike:published/9_ResNet18", "level3-pike:published/10_Up"}
    assert {result["task"] for result in json.loads(shown)["results"]} == names
    said("optimize", "level3-pike:published/10", "--query-budget", "1", "--out", "run", "--json")
    assert json.loads((tmp_path / "run" / "result.json").read_text())["task"] == "level3-pike:published/10_Up"
    (tmp_path / "c.toml").write_text('[campaign]\ntasks = ["level5:published"]\ncontenders = ["eager"]\n')
    code, shown, err = said("campaign", "c.toml", "--out", "many", "--json")
    assert code == 0 and "level5:published/4_llama2" in (tmp_path / "many" / "plan.json").read_text(), err


def test_a_changed_checkout_is_one_sentence_and_another_level_goes_on(checkout: Path, said) -> None:
    said("suites", "add", "published", str(checkout))
    commit = git(checkout, "rev-parse", "HEAD")[:12]
    path = checkout / "KernelBench" / "level3-pike" / "9_ResNet18.py"
    path.write_text(path.read_text().replace("2", "3"))
    for words in (
        ("tasks", "level3-pike:published"),
        ("optimize", "level3-pike:published/10"),
        ("suite", "level3-pike:published"),
    ):
        code, _, err = said(*words)
        assert code == 2 and f"9_ResNet18.py in {path.parent} changed" in err and f"check out {commit}" in err
        assert "pike suites remove published" in err
    assert tasks.resolve("level5:published/4").id == "level5:published/4_llama2"
    assert "1 changed" in said("suites")[1]
    git(checkout, "checkout", "-q", "--", ".")
    assert len(tasks.in_suite("level3-pike:published")) == 2
    path.unlink()
    with pytest.raises(UserError, match="changed or went"):
        tasks.in_suite("level3-pike:published")


def test_what_is_added_later_is_no_part_of_the_suite(checkout: Path, said) -> None:
    said("suites", "add", "published", str(checkout))
    (checkout / "KernelBench" / "level5" / "99_new.py").write_text(FILE.format(by=9))
    assert [entry.id for entry in tasks.load_suite("level5:published").entries] == ["4_llama2"]


def test_a_folder_is_one_suite_and_its_helpers_count(checkout: Path, tmp_path: Path, said) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "a.py").write_text("import layers\n" + FILE.format(by=2))
    (mine / "layers.py").write_text("X = 1\n")
    code, shown, _ = said("suites", "add", "metr", str(mine), "--json")
    (suite,) = json.loads(shown)["suites"]
    assert (code, suite["name"], sorted(suite["files"]), suite["commit"]) == (0, "metr", ["a.py", "layers.py"], "")
    assert tasks.resolve("metr/a").import_paths == (str(mine),)
    (mine / "layers.py").write_text("X = 2\n")
    with pytest.raises(UserError, match=r"layers\.py .* restore what was there"):
        tasks.resolve("metr/a")


def test_removed_names_are_gone_and_files_stay(checkout: Path, said) -> None:
    said("suites", "add", "published", str(checkout))
    assert said("suites", "remove", "published")[0] == 0
    with pytest.raises(UserError, match="no suite 'level5:published'"):
        tasks.load_suite("level5:published")
    assert (checkout / "KernelBench" / "level5" / "4_llama2.py").is_file()
    assert said("suites", "add", "published", str(checkout))[0] == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("add", "published", "/nowhere"), "nothing at '/nowhere'"),
        (("add", "hf:mine", "."), "cannot be called 'hf:mine'"),
        (("add", "a/b", "."), "cannot be called 'a/b'"),
        (("add", "x:small", "."), "cannot be called 'x:small'"),
        (("add", "demo", "{level}"), "There is a suite 'demo' already"),
        (("add", "twice", "{level}"), "'twice' is registered already"),
        (("remove", "twise"), "did you mean 'twice'"),
    ],
)
def test_bad_input_is_one_sentence(checkout: Path, said, words: tuple[str, ...], sentence: str) -> None:
    level = str(checkout / "KernelBench" / "level5")
    said("suites", "add", "twice", level)
    code, shown, err = said("suites", *(word.format(level=level) for word in words))
    assert (code, shown) == (2, "") and sentence in err and err.count("pike:") == 1


def test_a_damaged_file_of_registrations_is_named(checkout: Path, tmp_path: Path, said) -> None:
    path = tmp_path / "config" / "pike" / "suites.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    code, _, err = said("suites")
    assert code == 2 and str(path) in err and "mend or delete" in err
