"""The original model in the engine's process: its call for `best.py`, and its graph for recipes.

Knows how to load a task's reference on the CPU without disturbing the caller's random numbers.
Never runs a candidate and never touches a GPU: only judges do.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pike.core.task import Task
from pike.engine.output.best_file import literal
from pike.engine.output.signature import Indescribable, describe, digest, tensors_of

if TYPE_CHECKING:
    from torch import nn

    from pike.judge.reference.reference import Inputs, Reference


@dataclass(frozen=True, slots=True)
class OriginalModel:
    """A task's own model.

    Attributes:
        reference: the model in eval mode on the CPU, its constructor arguments and its inputs.
        call: a call in one line (`pike.engine.output.signature`), None if it cannot be described.
        init_inputs: constructor arguments as a Python literal, None if they are no literals.
        dtypes: the types of parameters and buffers (`dtypes_of`).
        constants: the tensors that every draw of inputs has in common (`Terms.constants`).
    """

    reference: Reference
    call: str | None
    init_inputs: str | None
    dtypes: str = ""
    constants: tuple[tuple[int, str], ...] = ()


def dtypes_of(module: nn.Module) -> str:
    """The types of a module's parameters and buffers, such as `float32, int64`."""
    tensors = (*module.parameters(), *module.buffers())
    return ", ".join(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors}))


def load(task: Task) -> OriginalModel:
    """Load the original model of a task.

    Raises:
        UserError: the task's own code fails.
    """
    from pike.judge.reference import reference as references
    from pike.recipes.capture.exclusive import exclusively

    # While another thread captures a model, switches of torch that hold for the whole process would break the
    # building of this one.
    with exclusively(), _undisturbed():
        loaded = references.load(task)

    def draw(seed: int) -> references.Inputs:
        with _undisturbed():
            return loaded.draw(seed)

    reference = replace(loaded, draw=draw)
    inputs = draw(0)
    try:
        call = describe(inputs.args, inputs.kwargs)
    except Indescribable:
        call = None
    constants = () if call is None else _constants(draw, inputs)
    return OriginalModel(reference, call, literal(reference.init_inputs), dtypes_of(reference.model), constants)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A context that leaves every generator as it was: the caller may be a notebook."""
    import numpy as np
    import torch

    python, numpy = random.getstate(), np.random.get_state()
    ready = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if ready else ()):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def _constants(draw: Callable[[int], Inputs], inputs: Inputs) -> tuple[tuple[int, str], ...]:
    """What a candidate may have taken for granted, because no draw changes it."""
    same = dict(enumerate(digest(tensor) for tensor in tensors_of(inputs.args, inputs.kwargs)))
    for seed in (1, 2, 3):  # a few flags may be equal by chance
        if same:
            other = draw(seed)
            drawn = dict(enumerate(digest(tensor) for tensor in tensors_of(other.args, other.kwargs)))
            same = {place: name for place, name in same.items() if drawn.get(place) == name}
    return tuple(same.items())
