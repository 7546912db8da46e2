"""A file's small variant is the file with other numbers, and stands alone."""

from __future__ import annotations

import pytest

from pike import tasks
from pike.core.errors import UserError
from pike.core.task import Task, TaskKind
from pike.tasks import variants

FILE = '''"""ä: columns are counted in bytes, not characters."""
import torch
WIDTH = 768; HEADS = (1, 2)
SMALL = {"WIDTH": 2 * 8, "HEADS": (3,)}
LEAST_BYTES = 4 * WIDTH
class Model(torch.nn.Module):
    def forward(self, x):
        return x * WIDTH
def get_inputs():
    return [torch.randn(WIDTH)]
def get_init_inputs():
    return []
'''


def values(source: str) -> dict:
    scope: dict = {}
    exec(source, scope)
    return scope


def task_of(source: str) -> Task:
    return Task("made", "made", TaskKind.SOURCE, source, "made.py")


def test_the_variant_has_the_small_numbers_and_what_follows_from_them():
    scope = values(variants.small(task_of(FILE)).source)
    assert (scope["WIDTH"], scope["HEADS"], scope["LEAST_BYTES"]) == (16, (3,), 64)
    assert scope["get_inputs"]()[0].shape == (16,)


def test_nothing_else_of_the_file_changes():
    before, after = FILE.splitlines(), variants.small(task_of(FILE)).source.splitlines()
    assert [old for old, new in zip(before, after, strict=True) if old != new] == ["WIDTH = 768; HEADS = (1, 2)"]


def test_a_file_names_its_variant(tmp_path):
    path = tmp_path / "wide.py"
    path.write_text(FILE)
    task = tasks.resolve(f"{path}:small")
    assert (task.id, task.name) == ("wide:small", "wide (small)")
    assert values(task.source)["WIDTH"] == 16
    assert tasks.resolve(str(path)).source == FILE


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('SMALL = {"WIDTH": 2 * 8, "HEADS": (3,)}', "", "declares none as SMALL"),
        ('"HEADS": (3,)', '"HEAD": (3,)', "names 'HEAD'.*did you mean 'HEADS'"),
        ('{"WIDTH": 2 * 8, "HEADS": (3,)}', "dict(WIDTH=16)", "must be a dictionary"),
        ('"WIDTH": 2', "WIDTH: 2", "must be a dictionary"),
    ],
)
def test_what_cannot_be_a_variant_is_explained(old, new, words):
    with pytest.raises(UserError, match=words):
        variants.small(task_of(FILE.replace(old, new)))


def test_a_live_module_has_none():
    with pytest.raises(UserError, match="only files declare one"):
        variants.small(Task("live", "live", TaskKind.MODULE, "", "live"))


def test_ids_are_found_by_number_and_whole_suites_by_suffix():
    assert tasks.resolve("level3-pike/9").id == "level3-pike/9_ResNet18"
    assert tasks.resolve("level3-pike/9:small").id == "level3-pike/9_ResNet18:small"
    small = tasks.in_suite("level3-pike:small")
    assert [task.id for task in small] == [f"{task.id}:small" for task in tasks.in_suite("level3-pike")]
    with pytest.raises(UserError, match="has no task '999'"):
        tasks.resolve("level3-pike/999")
