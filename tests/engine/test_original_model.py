"""What the engine learns of a task's original: its call, and the inputs that no draw changes."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch import nn

from pike.engine.output import originals
from pike.engine.output.signature import describe, digest, tensors_of
from pike.tasks.modules import from_module


class Masked(nn.Module):
    def forward(self, x, ids, *, mask, also=None):
        return (x + ids) * mask


def test_inputs_that_every_draw_repeats_are_constants(tmp_path) -> None:
    ones, x, ids = torch.ones(2, 4), torch.linspace(0, 1, 8).reshape(2, 4), torch.arange(4)
    original = originals.load(from_module(Masked(), (x, ids), {"mask": ones, "also": ones}, folder=tmp_path))
    # Arguments by keyword are counted in the order of their names.
    assert original.constants == ((2, digest(ones)), (3, digest(ones)))
    assert original.call == describe((x, ids), {"mask": ones, "also": ones})


def test_the_callers_random_numbers_are_left_alone(tmp_path) -> None:
    x, ids = torch.linspace(0, 1, 8).reshape(2, 4), torch.arange(4)
    task = from_module(Masked(), (x, ids), {"mask": torch.ones(2, 4)}, folder=tmp_path)
    torch.manual_seed(5), random.seed(5), np.random.seed(5)
    expected = torch.rand(1), random.random(), np.random.random()
    torch.manual_seed(5), random.seed(5), np.random.seed(5)
    originals.load(task).reference.draw(7)
    assert (torch.rand(1), random.random(), np.random.random()) == expected


def test_a_flag_that_is_drawn_is_no_constant(tmp_path) -> None:
    def draw():
        return (torch.rand(2, 4), torch.randint(2, (1,))), {"mask": torch.full((1,), 2.0)}

    args, kwargs = draw()
    original = originals.load(from_module(Masked(), args, kwargs, folder=tmp_path, make_inputs=draw))
    assert [place for place, _ in original.constants] == [2]


def test_a_digest_tells_types_shapes_and_zeros_apart() -> None:
    zeros = torch.zeros(4)
    others = [zeros.int(), zeros.reshape(2, 2), -zeros, torch.ones(4), torch.zeros(())]
    assert len({digest(tensor) for tensor in (zeros, *others)}) == 6
    assert digest(torch.arange(4.0).reshape(2, 2).t()) == digest(torch.tensor([[0.0, 2.0], [1.0, 3.0]]))
    assert tensors_of((zeros,), {"b": others[0], "a": [others[1]]}) == [zeros, others[1], others[0]]
