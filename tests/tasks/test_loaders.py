"""Suites that people already have are found under the names that they would type."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pike import tasks
from pike.core.errors import UserError
from pike.tasks.loaders import huggingface

FILE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * {by}
def get_inputs():
    return [torch.randn(3)]
def get_init_inputs():
    return []
"""


def write(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for by, name in enumerate(names):
        (folder / name).write_text(FILE.format(by=by))
    return folder


def ids(suite: str) -> list[str]:
    return [entry.id for entry in tasks.load_suite(suite).entries]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder as one finds it after `git clone`."""
    root = tmp_path / "KernelBench"
    write(root / "KernelBench" / "level1", "10_Swish.py", "2_Matmul.py")
    write(root / "KernelBench" / "level3", "9_ResNet18.py")
    write(root / "KernelBench" / "level3-pike", "9_ResNet18.py")
    write(root / "KernelBench" / "level5", "4_llama2.py")
    write(root / "scripts", "1_not_a_level.py")
    (root / "KernelBench" / "level1" / "util.py").write_text("x = 1\n")
    return root


def test_a_checkout_is_a_suite_of_all_its_levels(checkout):
    assert ids(str(checkout)) == [
        "level1/2_Matmul",
        "level1/10_Swish",
        "level3/9_ResNet18",
        "level3-pike/9_ResNet18",
        "level5/4_llama2",
    ]
    assert tasks.in_suite(str(checkout))[0].id == "KernelBench/level1/2_Matmul"


@pytest.mark.parametrize("level", ["{0}/level1", "{0}/KernelBench/level1"])
def test_one_level_is_a_suite_too(checkout, level):
    assert ids(level.format(checkout)) == ["2_Matmul", "10_Swish"]


@pytest.mark.parametrize("name", ["level3/9", "level3/9_ResNet18", "KernelBench/level3/9", "level3-pike/9"])
def test_a_task_of_a_checkout_is_found_by_level_and_number(checkout, name):
    task = tasks.resolve(f"{checkout}/{name}")
    assert Path(task.origin).parent.name == name.split("/")[-2]
    assert (task.name, task.import_paths) == ("9 ResNet18", ())


def test_a_checkout_in_the_current_folder_needs_no_path(checkout, monkeypatch):
    monkeypatch.chdir(checkout.parent)
    assert tasks.resolve("KernelBench/level1/2").id == "level1/2_Matmul"
    monkeypatch.chdir(checkout)
    assert tasks.resolve("level1/2").origin == str(checkout / "KernelBench" / "level1" / "2_Matmul.py")


@pytest.mark.parametrize("place", ["tasks", "tasks/kernelbench/assets", "."])
def test_the_filtered_version_has_other_folders_and_the_same_files(tmp_path, place):
    write(tmp_path / "filtered" / place / "level_1", "1_Square.py")
    write(tmp_path / "filtered" / place / "level_5", "12_decode.py")
    assert ids(str(tmp_path / "filtered")) == ["level_1/1_Square", "level_5/12_decode"]
    assert tasks.resolve(f"{tmp_path}/filtered/level_5/12").name == "12 decode"


def test_a_folder_of_files_is_a_suite(tmp_path):
    folder = write(tmp_path / "mine", "b_task.py", "10_task.py", "2_task.py")
    (folder / "layers.py").write_text("class Layer:\n    pass\n")
    (folder / "_draft.py").write_text(FILE.format(by=1))
    assert ids(str(folder)) == ["b_task", "2_task", "10_task"]
    task = tasks.resolve(f"{folder}/10")
    assert (task.id, task.import_paths) == ("mine/10_task", (str(folder),))


def test_a_broken_file_spoils_neither_the_list_nor_the_others(tmp_path):
    folder = write(tmp_path / "mine", "1_good.py")
    (folder / "2_bad.py").write_text(FILE.format(by=1) + "x = (\n")
    assert ids(str(folder)) == ["1_good", "2_bad"]
    assert tasks.resolve(f"{folder}/1").name == "1 good"
    with pytest.raises(UserError, match=r"2_bad\.py does not parse"):
        tasks.resolve(f"{folder}/2")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("{0}/empty", "holds no task"),
        ("{0}/nowhere", "There is no suite"),
        ("demoo", "did you mean 'demo'"),
        ("hf:KernelBench", "give hf:OWNER/NAME"),
        ("hf:a/b/c/d", "There is no suite"),
        ("hf:a//c", "give hf:OWNER/NAME"),
    ],
)
def test_a_name_that_is_no_suite_is_explained(tmp_path, name, words):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=words):
        tasks.in_suite(name.format(tmp_path))


def test_a_suite_is_not_a_task(tmp_path):
    write(tmp_path / "mine", "1_good.py")
    with pytest.raises(UserError, match=r"is a suite of 1, not a task: .*mine/1_good'"):
        tasks.resolve(f"{tmp_path}/mine/")
    with pytest.raises(UserError, match="has no task '3_godo'; did you mean '1_good'"):
        tasks.resolve(f"{tmp_path}/mine/3_godo")


def test_small_variants_of_a_folder(tmp_path):
    folder = write(tmp_path / "mine", "1_task.py")
    (folder / "1_task.py").write_text("N = 3\nSMALL = {'N': 1}\n" + FILE.format(by="N"))
    assert "N = 1\n" in tasks.in_suite(f"{folder}:small")[0].source
    assert tasks.resolve(f"{folder}/1:small").id == "mine/1_task:small"


PACKAGE = '''
"""Stands in for the package of that name: the one function of it that is used."""


def load_dataset(name):
    if name not in ("ScalingIntelligence/KernelBench", "me/mine"):
        raise FileNotFoundError(f"{name} is not on the Hub")
    row = lambda level, number, name: {"code": CODE, "level": level, "name": name, "problem_id": number}
    if name == "me/mine":
        return {"train": [row(1, 1, None), row(1, 2, "b/c.py")]}
    return {
        "level_1": [row(1, 10, "10_Swish"), row(1, 2, "2_Matmul")],
        "level_3": [row(3, 9, "ResNet18")],
        "level_4": [{"prompt": "no code"}],
    }
'''


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `datasets` package without a network behind it."""
    (tmp_path / "datasets.py").write_text(f"CODE = {FILE.format(by=3)!r}\n{PACKAGE}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "datasets", raising=False)
    huggingface.forget()
    yield
    huggingface.forget()
    sys.modules.pop("datasets", None)


HUB = "hf:ScalingIntelligence/KernelBench"


@pytest.mark.usefixtures("hub")
def test_a_split_of_a_data_set_is_a_suite():
    assert ids(f"{HUB}/level_1") == ["10_Swish", "2_Matmul"]
    assert tasks.resolve(f"{HUB}/level_1/2").id == "KernelBench/level_1/2_Matmul"
    task = tasks.resolve(f"{HUB}/level_3/9")
    assert (task.id, task.source) == ("KernelBench/level_3/9_ResNet18", FILE.format(by=3))
    assert tasks.resolve(task.origin) == task


@pytest.mark.usefixtures("hub")
def test_a_data_set_without_levels_needs_no_split():
    assert ids("hf:me/mine") == ["1_task", "2_b_c"]
    assert tasks.resolve("hf:me/mine/2") == tasks.resolve("hf:me/mine/train/2_b_c")


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{HUB}/level_2", "no split 'level_2'"),
        (f"{HUB}/level_4", "no text 'code'"),
        ("hf:nobody/nothing", "cannot be loaded: FileNotFoundError: nobody/nothing is not on the Hub"),
    ],
)
def test_a_data_set_that_cannot_be_used_is_explained(name, words):
    with pytest.raises(UserError, match=words):
        tasks.in_suite(name)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    huggingface.forget()
    with pytest.raises(UserError, match=r"pip install 'pike-torch\[hf\]'"):
        tasks.in_suite(HUB)
