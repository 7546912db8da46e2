"""The module that every recipe candidate is: the original model, and a faster way to run it.

The fast way is built once. It is used in eval mode, without gradients, for inputs like those it was
built for. In every other case the original runs, so the result is always right. Imports nothing of
PIKE, because its classes are copied into candidates.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch


class PreparedModel(torch.nn.Module):
    """Runs `model`, through `prepare(model, args, kwargs)` for inputs like the first ones seen.

    Weights are those of `model`, under its own names in `state_dict`. Loading, moving or casting
    weights and changing the mode make the module prepare again. It does not see weights that are
    changed in place by other means.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.prepared: tuple[Any, Callable[..., Any]] | None = None

    def prepare(self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
        """The fast way to run `model` on inputs like these."""
        raise NotImplementedError

    def run(self, fast: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call of the prepared model."""
        return fast(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's outputs."""
        if self.training or torch.is_grad_enabled():
            return self.model(*args, **kwargs)
        described = (describe_call(args), describe_call(kwargs), torch.is_autocast_enabled())
        if self.prepared is None:
            self.prepared = (described, self.prepare(self.model, own_copy(args), own_copy(kwargs)))
        expected, fast = self.prepared
        if described != expected:
            return self.model(*args, **kwargs)
        return self.run(fast, args, kwargs)

    def forget(self) -> None:
        """Drop what was prepared; the next call prepares again."""
        self.prepared = None

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The original model's weights, under its own names."""
        return self.model.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load weights under the original model's names."""
        self.forget()
        return self.model.load_state_dict(state_dict, strict=strict, assign=assign)

    def train(self, mode: bool = True) -> Any:
        """Change the mode of the model."""
        self.forget()
        return super().train(mode)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self.forget()
        return super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "prepared": None}


def describe_call(value: Any) -> Any:
    """What must agree for two inputs to be alike: shapes, dtypes, devices, structure, plain values.

    Values of unknown kinds are never like any other.
    """
    if type(value) is torch.Tensor:
        return value.shape, value.dtype, value.device
    if type(value) in (tuple, list):
        return (type(value), *[describe_call(item) for item in value])
    if type(value) is dict:
        return (dict, *[(key, describe_call(item)) for key, item in value.items()])
    if value is None or type(value) in (bool, int, float, str):
        return type(value), value
    return object()


def own_copy(value: Any) -> Any:
    """Arguments laid out alike in memory of their own: a model that is only tried may write into them."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, copied_tensor, value)


def copied_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with the same strides in memory of its own, which holds no more than it."""
    with torch.inference_mode(tensor.is_inference()):
        tensor = tensor.detach()
        if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided or not tensor.numel():
            return tensor.clone()
        length = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
        return tensor.as_strided((length,), (1,)).clone().as_strided(tensor.shape, tensor.stride())


def private_copy(model: torch.nn.Module) -> torch.nn.Module:
    """A copy whose weights may be changed without changing the original's.

    Weights of recurrent layers lie in one piece again: cuDNN copies others at every call.
    """
    copied = copy.deepcopy(model).requires_grad_(False)
    for part in copied.modules():
        if isinstance(part, torch.nn.RNNBase):
            part.flatten_parameters()
    return copied
