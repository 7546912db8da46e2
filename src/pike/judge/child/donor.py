"""A model's weights without its code, for candidates that convert weights in `from_reference`.

Subtrees of `torch.nn` modules stay if they can be pickled. Every other module becomes a `Donor` with
the same parameters, buffers, children and plain attributes. Does not know the candidate.
"""

import copy
import io
import pickle
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

_PLAIN = (int, float, str, bool, type(None), torch.dtype)


class Donor(nn.Module):
    """Parameters, buffers, children and plain attributes of a module; calling it is an error."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: the reference's code is not here.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("from_reference(model) receives weights and settings only; its forward is not available")


def donate(model: nn.Module) -> nn.Module:
    """A copy of `model` without its code, at the same attribute paths; tensors are shared."""
    if all(type(module).__module__.startswith(("torch.nn", "torch.ao.nn")) for module in model.modules()) and _travels(
        model
    ):
        return copy.copy(model)
    donor = _shell(model)
    for name, parameter in model._parameters.items():
        donor.register_parameter(name, parameter)
    for name, buffer in model._buffers.items():
        donor.register_buffer(name, buffer)
    for name, child in model._modules.items():
        donor._modules[name] = None if child is None else donate(child)
    for name, value in vars(model).items():
        if not name.startswith("_") and name != "training" and _is_plain(value):
            setattr(donor, name, value)
    for name in getattr(model, "parametrizations", ()):
        setattr(donor, name, getattr(model, name).detach())
    donor.training = False
    return donor


def _travels(model: nn.Module) -> bool:
    """Whether a module can be pickled: not if it is parametrised, or its hooks are local functions."""
    pickler = pickle.Pickler(io.BytesIO())
    pickler.persistent_id = lambda value: 0 if isinstance(value, torch.Tensor) else None  # type: ignore[method-assign]
    try:
        pickler.dump(model)
    except Exception:  # pickling runs the __reduce__ of the user's objects
        return False
    return True


def _shell(model: nn.Module) -> nn.Module:
    for kind in (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict):
        if isinstance(model, kind):
            return kind()
    return Donor()


def _is_plain(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not isinstance(value, nn.Parameter)
    if isinstance(value, tuple | list):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(_is_plain(item) for item in value.values())
    return isinstance(value, _PLAIN)


def packed(donor: nn.Module, state: Mapping[str, torch.Tensor]) -> bytes:
    """A donor pickled without the tensors of `state`, which share memory with the donor's."""
    # A state may hold more than tensors: extra state, the types of quantised weights.
    names = {_place(tensor): name for name, tensor in state.items() if isinstance(tensor, torch.Tensor)}
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer)

    def named(value: Any) -> tuple[str, bool] | None:
        name = names.get(_place(value)) if isinstance(value, torch.Tensor) else None
        return None if name is None else (name, isinstance(value, nn.Parameter))

    pickler.persistent_id = named  # type: ignore[method-assign]
    pickler.dump(donor)
    return buffer.getvalue()


def unpacked(data: bytes, state: Mapping[str, torch.Tensor]) -> nn.Module:
    """The donor that `packed` wrote, its tensors taken from `state`."""
    made: dict[str, torch.Tensor] = {}

    def find(key: tuple[str, bool]) -> torch.Tensor:
        name, is_parameter = key
        if name not in made:
            tensor = state[name].clone()
            made[name] = nn.Parameter(tensor, requires_grad=tensor.is_floating_point()) if is_parameter else tensor
        return made[name]

    unpickler = pickle.Unpickler(io.BytesIO(data))
    unpickler.persistent_load = find  # type: ignore[method-assign]
    donor: nn.Module = unpickler.load()
    return donor


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()
