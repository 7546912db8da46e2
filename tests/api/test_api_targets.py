"""Targets at other batch sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from pike.api.dropin import DropIn, JudgedCalls
from pike.api.targets import call_of, task_of, tasks_at
from pike.core.errors import UserError
from pike.engine.output import originals

TABLE = torch.zeros(5, 3)


def shapes(target: nn.Module, example: object, size: int, folder: Path) -> list[tuple[int, ...]]:
    """The shapes that a task at `size` draws."""
    inputs = originals.load(tasks_at(target, example, [size])[size](folder)).reference.draw(1)
    return [tuple(tensor.shape) for tensor in (*inputs.args, *inputs.kwargs.values())]


@pytest.mark.parametrize("size", [1, 7])
def test_all_that_is_as_long_as_the_batch_is_resized(tmp_path: Path, size: int) -> None:
    example = ((torch.randn(2, 3), TABLE), {"mask": torch.ones(2, 1)})
    want = [(size, 3), (5, 3), (size, 1)]
    assert shapes(nn.Identity(), example, size, tmp_path / "fixed") == want
    assert shapes(nn.Identity(), lambda: example, size, tmp_path / "drawn") == want


def test_resized_inputs_keep_their_values_and_layout() -> None:
    images = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    (one,), (five,) = (call_of(images).resized(size).args for size in (1, 5))
    assert torch.equal(one, images[:1])
    assert torch.equal(five, images[[0, 1, 0, 1, 0]])
    assert five.is_contiguous(memory_format=torch.channels_last)


def test_the_examples_own_size_is_no_other() -> None:
    assert list(tasks_at(nn.Identity(), torch.zeros(8, 1), [32, 1, 8, 1])) == [1, 32]
    assert tasks_at("demo/resnet18", None, ()) == {}


def test_a_judge_never_takes_a_drop_in_for_the_truth(tmp_path: Path) -> None:
    dropin = DropIn(nn.Linear(3, 3), nn.Identity, JudgedCalls("(float32[2, 3])", "cpu"))
    task = task_of(dropin, torch.zeros(2, 3), tmp_path)
    assert type(originals.load(task).reference.model) is nn.Linear
    with pytest.raises(UserError, match="drop-in at '1'"):
        task_of(nn.Sequential(nn.ReLU(), dropin), torch.zeros(2, 3), tmp_path)


def test_a_function_that_fails_to_draw_inputs_is_named(tmp_path: Path) -> None:
    def draw() -> torch.Tensor:
        raise KeyError("no batch")

    for act in (lambda: task_of(nn.Identity(), draw, tmp_path), lambda: tasks_at(nn.Identity(), draw, [8])):
        with pytest.raises(UserError, match="function given as example_inputs raised KeyError: 'no batch'"):
            act()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sizes", [[0], [1, -8], ["8"], [2.0], 4, "8", None])
def test_what_is_no_batch_size_is_refused(sizes: list[int]) -> None:
    with pytest.raises(UserError, match="whole numbers from 1"):
        tasks_at(nn.Identity(), torch.zeros(4, 1), sizes)


def test_a_batch_needs_a_module_and_a_tensor() -> None:
    with pytest.raises(UserError, match=r"live torch\.nn\.Module"):
        tasks_at("demo/resnet18", torch.zeros(4, 1), [8])
    with pytest.raises(UserError, match="have no batch"):
        tasks_at(nn.Identity(), {"scale": 2.0}, [8])
