"""What a user types finds its task, or one sentence says what to type instead."""

from __future__ import annotations

import pickle
import sys

import pytest
import torch

from pike import tasks
from pike.core.errors import UserError
from pike.core.task import TaskKind

FILE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(3)]
def get_init_inputs():
    return []
"""


def test_a_file_is_a_task_and_is_not_executed(tmp_path):
    path = tmp_path / "double_it.py"
    path.write_text(FILE + "raise SystemExit('executed')\n")
    task = tasks.resolve(str(path))
    assert (task.id, task.name, task.kind) == ("double_it", "double it", TaskKind.SOURCE)
    assert task.source == path.read_text()
    assert task.origin == str(path)


def test_a_file_that_imports_its_neighbours_finds_them(tmp_path):
    (tmp_path / "net.py").write_text(FILE)
    (tmp_path / "task.py").write_text(
        "from net import Model\ntry:\n    from net import get_inputs\nexcept ImportError:\n    pass\nget_init_inputs = list\n"
    )
    assert tasks.resolve(str(tmp_path / "task.py")).import_paths == (str(tmp_path),)


@pytest.mark.parametrize(
    ("removed", "missing"),
    [("class Model", "class Model"), ("def get_inputs", "get_inputs()"), ("def get_init_inputs", "get_init_inputs()")],
)
def test_a_file_says_what_it_lacks(tmp_path, removed, missing):
    path = tmp_path / "task.py"
    path.write_text(FILE.replace(removed, removed + "_"))
    with pytest.raises(UserError, match="lacks") as refused:
        tasks.resolve(str(path))
    assert missing in str(refused.value)
    assert " and " not in str(refused.value).partition("lacks")[2]


def test_a_file_that_does_not_parse_names_the_line(tmp_path):
    path = tmp_path / "task.py"
    path.write_text("x = 1\nclass Model(:\n")
    with pytest.raises(UserError, match="line 2"):
        tasks.resolve(str(path))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("demo/resnet81", "did you mean 'resnet18'"),
        ("dmo/resnet18", "did you mean 'demo/resnet18'"),
        ("resnet18", "did you mean 'demo/resnet18'"),
        ("missing.py", "no task file missing.py"),
        ("math:sqr", "did you mean 'sqrt'"),
        ("no_such_module:build", "cannot be imported"),
        ("math:pi", "not a callable"),
    ],
)
def test_unknown_names_get_the_nearest(text, hint):
    with pytest.raises(UserError, match=hint):
        tasks.resolve(text)


CALLABLE = """
import torch
class Scale(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = torch.nn.Parameter(torch.tensor(by))
    def forward(self, x, shift=0.0):
        return x * self.by + shift
X = torch.arange(3.0)
def as_tuple(): return Scale(2.0), (X,)
def as_tensor(): return Scale(2.0), X
def as_dict(): return Scale(2.0), {"x": X}
def as_both(): return Scale(2.0), ([X], {"shift": X})
def wrong(): return Scale(2.0)
def fails(): raise RuntimeError("no weights")
"""


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [("as_tuple", 1, []), ("as_tensor", 1, []), ("as_dict", 0, ["x"]), ("as_both", 1, ["shift"])],
)
def test_a_callable_is_packaged_like_a_live_module(tmp_path, monkeypatch, name, args, kwargs):
    module = f"user_{name}"
    (tmp_path / f"{module}.py").write_text(CALLABLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    task = tasks.resolve(f"{module}:{name}", folder=tmp_path / "kept")
    assert task.kind is TaskKind.MODULE
    assert task.id == f"{module}:{name}"
    assert task.import_paths == (str(tmp_path),)
    with open(task.payload_path, "rb") as file:
        payload = pickle.load(file)
    assert (len(payload["args"]), list(payload["kwargs"])) == (args, kwargs)
    assert torch.equal(
        payload["module"](
            *payload["args"], **{"x": torch.arange(3.0), **payload["kwargs"]} if not args else payload["kwargs"]
        )[:1],
        torch.zeros(1),
    )
    del sys.modules[module]


@pytest.mark.parametrize(("name", "hint"), [("wrong", "must return"), ("fails", "no weights")])
def test_a_callable_that_misbehaves_is_explained(tmp_path, monkeypatch, name, hint):
    (tmp_path / "user_wrong.py").write_text(CALLABLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(UserError, match=hint):
        tasks.resolve(f"user_wrong:{name}", folder=tmp_path / "kept")
