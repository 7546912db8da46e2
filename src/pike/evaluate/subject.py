"""A task made ready to be linted: the reference and its answers in this process, without children or files.

Knows what lint asks of a task, and answers it more cheaply than a bench does: nothing here is timed and no candidate is
near, so no process has to be started. Does not know which answers are tried.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Protocol

import torch
from torch import nn

from pike.core.errors import UserError
from pike.core.evaluation import Precision
from pike.core.task import Task
from pike.evaluate.answers import Answers, native
from pike.evaluate.child.layout import take_apart
from pike.evaluate.correctness import Expected
from pike.evaluate.reference import Inputs, drawing_on, load
from pike.evaluate.regimes import neighbour


class Subject(Protocol):
    """What lint asks of a task; a bench answers it too."""

    task: Task
    device: torch.device

    @property
    def model(self) -> nn.Module:
        """The reference in its own precision, on the device."""
        ...

    def draw(self, seed: int) -> Inputs:
        """Inputs for one call from a secret seed."""
        ...

    def expected(self, inputs: Inputs) -> Expected:
        """What a call on `inputs` must return."""
        ...

    def nearby(self, inputs: Inputs) -> list[list[torch.Tensor]]:
        """What the reference returns, at each allowed precision, on new inputs a unit in the last place away."""
        ...


class InProcess:
    """A subject whose reference runs here."""

    def __init__(self, task: Task, device: torch.device, precision: Precision) -> None:
        """Construct the reference and its copies at other precisions.

        Raises:
            UserError: the task's own code fails.
        """
        self.task = task
        self.device = device
        self._reference = load(task, device)
        example = checked_example(task, self.draw)
        self.model = self._reference.model.to(device)
        self._native = native(self.model, device)
        try:
            self._native(example)
        except Exception as error:  # the reference is the user's own code and may raise anything
            raise UserError(f"The reference model of '{task.id}' does not run: {error}") from error
        self._answers = Answers(self.model, device, precision, example)

    def draw(self, seed: int) -> Inputs:
        """Inputs for one call from a secret seed, made on the device where the task allows it."""
        with drawing_on(self.device):
            return self._reference.draw(seed)

    def draw_held_out(self, seed: int) -> tuple[Inputs, ...]:
        """Inputs of the other shapes that the task declares; empty where it declares none."""
        with drawing_on(self.device):
            return self._reference.draw_held_out(seed)

    def expected(self, inputs: Inputs) -> Expected:
        """What a call on `inputs` must return."""
        return self._answers.expected(inputs, self._native(inputs))

    def nearby(self, inputs: Inputs) -> list[list[torch.Tensor]]:
        """What the reference returns, at each allowed precision, on new inputs a unit in the last place away."""
        moved = neighbour(inputs, secrets.randbits(63))
        return [self._native(moved), *self._answers.variants(moved)]


def checked_example(task: Task, draw: Callable[[int], Inputs]) -> Inputs:
    """One draw, after showing that a seed decides it: the judge draws the inputs of verified calls twice.

    Raises:
        UserError: the same seed gives other inputs.
    """
    seed = secrets.randbits(63)
    first, second = draw(seed), draw(seed)
    ours, _ = take_apart((first.args, first.kwargs))
    theirs, _ = take_apart((second.args, second.kwargs))
    if len(ours) != len(theirs) or not all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True)):
        raise UserError(
            f"Task '{task.id}': get_inputs() gives other values for the same random seed; "
            "draw from torch's, numpy's or random's global generator"
        )
    return first
