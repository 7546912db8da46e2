"""One call of a reference in this process, at any precision.

Works on copies of the inputs, because a reference may change them. Does not know what the outputs
are for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from pike.judge.child.memory.layout import flatten_output, put_together, take_apart
from pike.judge.reference.reference import Inputs

Forward = Callable[[Inputs], list[torch.Tensor]]


@dataclass(frozen=True, slots=True)
class Returned:
    """What a call returned, and its own copies of the input tensors as the call left them."""

    value: Any
    inputs: list[torch.Tensor]

    def leaves(self, changed: tuple[int, ...]) -> list[torch.Tensor]:
        """The values of the outputs, and after them the inputs with these indices."""
        return [*(leaf.detach() for leaf, _ in flatten_output(self.value)), *(self.inputs[index] for index in changed)]


@dataclass(frozen=True, slots=True)
class Trial:
    """A call: on which device, with which inputs, and which of them the reference changes."""

    device: torch.device
    example: Inputs
    changed: tuple[int, ...] = ()

    def forward(self, model: Callable[..., Any], dtype: torch.dtype | None = None) -> Forward:
        """Runs a model that lies on the device."""
        return lambda inputs: [
            leaf.to(self.device) for leaf in run(model, inputs, self.device, dtype).leaves(self.changed)
        ]


def run(model: Callable[..., Any], inputs: Inputs, device: torch.device, dtype: torch.dtype | None = None) -> Returned:
    """Call a model without gradients, with floating-point inputs of `dtype` if that is given."""
    tensors, structure = take_apart((inputs.args, inputs.kwargs))
    copies = [tensor.detach().to(device, dtype_for(tensor, dtype), copy=True) for tensor in tensors]
    args, kwargs = put_together(structure, copies)
    try:
        with torch.no_grad():
            return Returned(model(*args, **kwargs), copies)
    except SystemExit as error:  # which would end the judge
        raise RuntimeError(f"it raised SystemExit: {error}") from error


def dtype_for(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """What a tensor becomes at a precision; integers stay, and complex numbers have only one wider."""
    if dtype is torch.float64 and tensor.is_complex():
        return torch.complex128
    return dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
