"""A task examined on one device: its reference, the layout of its calls, and its right answers.

Runs the reference in this process, which suffices for lint: that times nothing and runs no
candidate. Does not know which answers are tried.
"""

import secrets
from dataclasses import replace

import torch

from pike.core.task import Task
from pike.core.verdict.evaluation import Precision
from pike.judge.correctness.compare import Expected
from pike.judge.correctness.flips import FlipRate
from pike.judge.reference.answers import Answers
from pike.judge.reference.examination import check_alike, checked_example, shape_of
from pike.judge.reference.forward import Trial
from pike.judge.reference.input_distributions import neighbour
from pike.judge.reference.reference import Inputs, load

_DRAWS = 3
"""Inputs on which the reference runs, to see whether the shapes of its outputs depend on values."""


class InProcess:
    """A task whose reference runs here.

    Attributes:
        model: the reference in its own precision, on the device.
        draw_held_out: inputs of the other shapes that the task declares; empty if none.
        shape: the layout of a call.
        trial: how a call is made here.
    """

    def __init__(
        self, task: Task, device: torch.device, precision: Precision, alone: bool = True, limit_seconds: float = 0.0
    ) -> None:
        """Construct the reference and its copies at other precisions.

        Raises:
            UserError: the task's own code fails, or the task cannot be judged.
            torch.OutOfMemoryError: there is too little memory, and others (not `alone`) hold some.
        """
        self.task, self.device = task, device
        self._reference = load(task, device)
        self.model, self.draw_held_out = self._reference.model, self._reference.draw_held_out
        self._between_steps()
        self._loaded()
        self._between_steps()
        example = checked_example(task, self._reference.draw)
        others = (self._reference.draw(secrets.randbits(63)) for _ in range(_DRAWS - 1))
        self.shape = shape_of(task, self.model.to(device), example, device, others, limit_seconds=limit_seconds)
        self._between_steps()
        self.trial = Trial(device, example, self.shape.outputs.changed)
        self.answers = Answers(self.model, precision, self.trial, alone)
        self._flips = FlipRate()
        self._between_steps()

    def draw(self, seed: int) -> Inputs:
        """Inputs for one call from a secret seed.

        Raises:
            UserError: they differ from earlier ones in more than values.
        """
        drawn = self._reference.draw(seed)
        check_alike(self.task, drawn, self.shape.inputs)
        return drawn

    def expected(self, inputs: Inputs) -> Expected:
        """What a call must return; `inputs` are in the task's layout."""
        found = self.answers.expected(inputs, lambda: self._native(inputs))
        self._flips.learn(found.native, (found.answers, *found.variants))
        return replace(found, unsteady=self._flips.allowed(found.native))

    def nearby(self, inputs: Inputs) -> list[list[torch.Tensor]]:
        """What the reference returns, at each allowed precision, one rounding error away."""
        moved = neighbour(inputs, secrets.randbits(63))
        variants = self.answers.variants(moved)
        return [self._native(moved), *variants]

    def _loaded(self) -> None:
        """Called once the model is there, still on the CPU."""

    def _between_steps(self) -> None:
        """Called now and then during construction, when nothing is in hand on the device."""

    def _native(self, inputs: Inputs) -> list[torch.Tensor]:
        return self.trial.forward(self.model)(inputs)
