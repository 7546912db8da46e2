"""The original model as the engine's process sees it: what its call looks like, and what recipes may inspect.

Knows how to load a task's reference on the CPU without disturbing the caller's random numbers. Never runs a candidate
and never touches a GPU: only judges do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pike.core.task import Task
from pike.engine.bestfile import literal
from pike.engine.signature import Indescribable, describe

if TYPE_CHECKING:
    from torch import nn

    from pike.evaluate.reference import Reference


@dataclass(frozen=True, slots=True)
class Original:
    """A task's own model.

    Attributes:
        reference: the model in eval mode on the CPU, its constructor arguments and its inputs.
        call: what a call looks like (`pike.engine.signature`), None if it cannot be described.
        init_inputs: constructor arguments as a Python literal, None if they are no literals.
        dtypes: the types of parameters and buffers (`dtypes_of`).
    """

    reference: Reference
    call: str | None
    init_inputs: str | None
    dtypes: str = ""


def dtypes_of(module: nn.Module) -> str:
    """The types of a module's parameters and buffers, such as `float32, int64`."""
    tensors = (*module.parameters(), *module.buffers())
    return ", ".join(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors}))


def load(task: Task) -> Original:
    """Load the original model of a task.

    Raises:
        UserError: the task's own code fails.
    """
    import torch

    from pike.evaluate import reference as references

    # The caller may be a notebook whose random numbers must not change because of us.
    with torch.random.fork_rng(devices=()):
        loaded = references.load(task)

    def draw(seed: int) -> references.Inputs:
        with torch.random.fork_rng(devices=()):
            return loaded.draw(seed)

    reference = replace(loaded, draw=draw)
    inputs = draw(0)
    try:
        call = describe(inputs.args, inputs.kwargs)
    except Indescribable:
        call = None
    return Original(reference, call, literal(reference.init_inputs), dtypes_of(reference.model))
