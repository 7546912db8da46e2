"""A live module is saved so that another process gives the same outputs, and described so that an agent can read it."""

from __future__ import annotations

import ast
import importlib.util
import pathlib
import subprocess
import sys
import threading

import pytest
import torch

from pike import tasks
from pike.core.errors import UserError
from pike.judge.reference.reference import load

LOAD = """
import pickle, sys, torch
sys.path[:0] = {paths!r}
payload = pickle.load(open({path!r}, "rb"))
if payload["make_inputs"]:
    torch.manual_seed(3)
    payload["args"], payload["kwargs"] = payload["make_inputs"]()
print(float(payload["module"](*payload["args"], **payload["kwargs"]).sum()))
"""


def loaded_elsewhere(task) -> float:
    script = LOAD.format(paths=list(task.import_paths), path=task.payload_path)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


class Local(torch.nn.Module):
    """Doubles what a linear layer says."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * self.inner(x)


def test_the_saved_module_gives_the_same_outputs_in_another_process(tmp_path):
    module, x = Local(), torch.randn(2, 4)
    task = tasks.from_module(module, (x,), {}, folder=tmp_path)
    assert loaded_elsewhere(task) == pytest.approx(float(module(x).detach().sum()), abs=1e-5)


@pytest.mark.slow
def test_a_class_whose_file_cannot_be_imported_by_name_is_saved_whole(tmp_path):
    path = tmp_path / "some-script.py"
    path.write_text("import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x + 41\n")
    spec = importlib.util.spec_from_file_location("odd_name", path)
    home = importlib.util.module_from_spec(spec)
    sys.modules["odd_name"] = home
    spec.loader.exec_module(home)
    task = tasks.from_module(home.Net(), (torch.ones(1),), {}, folder=tmp_path / "kept")
    del sys.modules["odd_name"]
    assert loaded_elsewhere(task) == 42


def written(folder, **files: str):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


HELPED = """
import torch
from {helper} import WIDTH
class Net(torch.nn.Module):
    def forward(self, x):
        return x + WIDTH
"""


def test_helpers_in_other_folders_are_found_in_the_other_process(tmp_path, monkeypatch):
    """A class in one folder imports a number from another, which imports from a third."""
    nets = written(tmp_path / "nets", nets_apart=HELPED.format(helper="one_helper"))
    ones = written(tmp_path / "ones", one_helper="from other_helper import TWENTY\nWIDTH = 2 * TWENTY\n")
    others = written(tmp_path / "others", other_helper="TWENTY = 20\n", not_needed="")
    written(tmp_path / "unused", unused="")
    for place in (nets, ones, others, tmp_path / "unused"):
        monkeypatch.syspath_prepend(place)
    task = tasks.from_module(importlib.import_module("nets_apart").Net(), (torch.ones(1),), {}, folder=tmp_path)
    assert loaded_elsewhere(task) == 41
    assert task.import_paths == tuple(map(str, (nets, ones, others)))
    digests = {pathlib.Path(file.path).name for file in task.files if file.digest}
    assert digests == {pathlib.Path(task.payload_path).name, "nets_apart.py", "one_helper.py", "other_helper.py"}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["return used", "import main_helper; used = main_helper.used; return used"])
def test_helpers_of_a_class_in_a_script_are_found_in_the_other_process(tmp_path, monkeypatch, how):
    monkeypatch.syspath_prepend(written(tmp_path / "helpers", main_helper="def used(x):\n    return x + 41\n"))
    scope = {"torch": torch, "__name__": "__main__", "used": importlib.import_module("main_helper").used}
    exec(f"class Net(torch.nn.Module):\n    def forward(self, x):\n        {how}(x)", scope)
    task = tasks.from_module(scope["Net"](), (torch.ones(1),), {}, folder=tmp_path)
    assert loaded_elsewhere(task) == 42


def test_inputs_can_be_drawn_in_the_other_process(tmp_path):
    task = tasks.from_module(
        torch.nn.Identity(), (torch.zeros(1),), {}, folder=tmp_path, make_inputs=lambda: ((torch.randn(5),), {})
    )
    torch.manual_seed(3)
    assert loaded_elsewhere(task) == pytest.approx(float(torch.randn(5).sum()), abs=1e-5)


def test_the_module_itself_is_left_alone(tmp_path):
    module = Local().train()
    task = tasks.from_module(module, (torch.zeros(4),), {}, folder=tmp_path / "new" / "folder")
    assert module.training
    assert [str(path) for path in (tmp_path / "new" / "folder").iterdir()] == [task.payload_path]


def test_normalised_and_parametrised_weights_are_saved(tmp_path):
    torch.manual_seed(0)
    shared = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 4))
    old = torch.nn.utils.weight_norm(torch.nn.Linear(4, 4))
    old(torch.ones(1, 4))  # which leaves a computed tensor in it
    module = torch.nn.Sequential(shared, old, torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(4, 4)), shared)
    task = tasks.from_module(module.eval(), (torch.ones(2, 4),), {}, folder=tmp_path)
    with torch.no_grad():
        assert loaded_elsewhere(task) == pytest.approx(float(module(torch.ones(2, 4)).sum()), abs=1e-5)


def test_a_compiled_script_is_refused_in_one_sentence_with_the_cure(tmp_path):
    with pytest.raises(UserError, match=r"give the module that torch.jit.script") as caught:
        tasks.from_module(torch.jit.script(torch.nn.Linear(4, 4)), (torch.ones(1, 4),), {}, folder=tmp_path)
    assert "\n" not in str(caught.value)


def test_what_a_copy_cannot_hold_is_named_with_its_own_cure(tmp_path):
    module = Local()
    module.lock = threading.Lock()
    with pytest.raises(UserError, match=r"cannot pickle '_thread.lock' object.*; give the class .* a __getstate__"):
        tasks.from_module(module, (torch.zeros(4),), {}, folder=tmp_path)


@pytest.mark.parametrize(
    ("example", "words"),
    [
        (torch.eye(4).to_sparse(), "an input is a tensor of layout torch.sparse_coo; give dense tensors"),
        (torch.nested.nested_tensor([torch.ones(1, 4), torch.ones(2, 4)]), "an input is a nested tensor; give dense"),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_example_that_is_not_dense_is_refused_in_one_sentence(tmp_path, example, words):
    task = tasks.from_module(Local(), (example,), {}, folder=tmp_path)
    with pytest.raises(UserError, match=words):
        load(task)


def test_what_cannot_be_pickled_is_a_user_error(tmp_path):
    module = Local()
    with open(tmp_path / "open", "w") as file, pytest.raises(UserError, match="cannot be saved"):
        tasks.from_module(module, (torch.zeros(4),), {"log": file}, folder=tmp_path)


def test_the_description_shows_own_classes_once_and_the_call(tmp_path):
    module = torch.nn.Sequential(Local(), Local(), torch.nn.ReLU())
    source = tasks.from_module(module, (torch.zeros(2, 4),), {"flag": True}, folder=tmp_path).source
    ast.parse(source)
    assert source.count("class Local") == 1
    assert "Doubles what a linear layer says" in source
    assert "class ReLU" not in source
    assert "forward(float32[2, 4], flag=True)" in source
    assert "(inner): Linear(in_features=4" in source


def test_the_description_survives_classes_without_source(tmp_path):
    scope: dict = {"torch": torch, "__name__": "__main__"}
    exec("class Typed(torch.nn.Module):\n    def forward(self, x):\n        return x", scope)
    source = tasks.from_module(scope["Typed"](), (torch.zeros(1),), {}, folder=tmp_path).source
    ast.parse(source)
    assert "Typed: its source is not available" in source
