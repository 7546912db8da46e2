"""A module that answers with the optimised code where that was judged, and with the original everywhere else.

Knows which calls were judged, when the optimised copy's weights are out of date, and how to fall back. Does not know
how the optimised code came about.

The drop-in *is* the original to everybody who looks: it shares the original's parameters, buffers and submodules (the
same dictionaries), so `state_dict`, `load_state_dict`, `parameters`, `.to()` and `.train()` act on the original. The
optimised copy has weights of its own, made from the original's; they are made anew before the next call when the
original's weights changed: in place (torch's version counters), by replacement, by `.data = ...`, or by `.to()`.
In-place edits through `.data` (`p.data.add_(...)`) leave no trace that could be seen cheaply; call `refresh()` after
them. Hooks on submodules see only calls that the original answers.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pike.api.trees import aligned, are_aligned, contiguous, dense, key_of, mapped, tensors_in
from pike.api.weights import Weights
from pike.engine.signature import Indescribable, describe


@dataclass(frozen=True, slots=True)
class Judged:
    """The calls that the optimised code may answer.

    Attributes:
        call: the judged call (`pike.engine.signature`), None if it could not be described.
        device: `cpu` or `cuda`.
        gpu: name of the judged GPU, empty on a CPU.
        dtypes: the types of the original's weights, None where they are not known.
    """

    call: str | None
    device: str
    gpu: str = ""
    dtypes: str | None = None


class DropIn(nn.Module):
    """An optimised module in place of the original.

    Args:
        original: the module to stand in for; it is not copied.
        build: makes the optimised module from a private copy of the original.
        judged: which calls it was judged on.
    """

    def __init__(self, original: nn.Module, build: Callable[[nn.Module], nn.Module], judged: Judged) -> None:
        super().__init__()
        own = self.__dict__
        own["_original"] = original
        # The same dictionaries, not copies: whatever changes here changes there.
        own["_parameters"], own["_buffers"] = original._parameters, original._buffers
        own["_modules"] = original._modules
        own["_non_persistent_buffers_set"] = original._non_persistent_buffers_set
        own["training"] = original.training
        own["_build"], own["_judged"] = build, judged
        own["_fast"], own["_broken"], own["_weights"] = None, "", None
        own["_alike"], own["_arrange"], own["_warned"] = None, None, False

    @property
    def original(self) -> nn.Module:
        """The module that this one stands in for."""
        module: nn.Module = self.__dict__["_original"]
        return module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The judged code's answer for a judged call, the original's otherwise."""
        reason = self.why_not(args, kwargs)
        if not reason:
            done, result = self._fast_forward(args, kwargs)
            if done:
                return result
            reason = self.__dict__["_broken"]
        self._warn(reason)
        return self.original(*args, **kwargs)

    def why_not(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Why the original answers this call, empty where the optimised code does."""
        own = self.__dict__
        if own["_broken"]:
            return str(own["_broken"])
        if own["training"]:
            return "it is in training mode; call .eval()"
        weights = self._current_weights()
        if not weights.watchable:
            return "its weights cannot be watched for changes"
        if weights.training:
            return "it or a submodule is in training mode; call .eval()"
        if torch.is_grad_enabled() and (weights.require_grad or _any_requires_grad((args, kwargs))):
            return "gradients are recorded; call it under torch.no_grad() or torch.inference_mode()"
        return self._unlike(args, kwargs, weights)

    def refresh(self) -> None:
        """Take the original's weights over again at the next call, and try again if the optimised code failed."""
        own = self.__dict__
        own["_fast"], own["_weights"], own["_alike"], own["_broken"] = None, None, None, ""
        own["_warned"] = False

    def train(self, mode: bool = True) -> DropIn:
        """As for the original; in training mode the original answers."""
        self.original.train(mode)
        self.__dict__["training"] = mode
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The original's."""
        return self.original.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Into the original; the optimised copy follows at the next call."""
        result = self.original.load_state_dict(*args, **kwargs)
        self._forget()
        return result

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> DropIn:
        # .to(), .half(), .cuda(): weights may be new tensors on another device.
        apply: Any = self.original._apply
        apply(fn) if recurse else apply(fn, recurse)
        self._forget()
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            # Whatever else the original has, for example `.config`.
            return getattr(self.original, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> DropIn:
        own = self.__dict__
        return DropIn(copy.deepcopy(self.original, memo), own["_build"], own["_judged"])

    def __reduce__(self) -> Any:
        own = self.__dict__
        return DropIn, (self.original, own["_build"], own["_judged"])

    def extra_repr(self) -> str:
        """What it was judged on."""
        judged: Judged = self.__dict__["_judged"]
        return f"judged on {judged.call} on {judged.gpu or judged.device}"

    def _forget(self) -> None:
        own = self.__dict__
        own["_fast"], own["_weights"], own["_alike"] = None, None, None

    def _unlike(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], weights: Weights) -> str:
        """How a call differs from the judged one, empty if it does not."""
        own = self.__dict__
        judged: Judged = own["_judged"]
        if torch.is_autocast_enabled(judged.device):
            return "autocast is on; it was judged without"
        key = key_of((args, kwargs))
        if key is not None and key == own["_alike"]:
            return ""
        devices = weights.devices | {tensor.device for tensor in tensors_in((args, kwargs))}
        if wrong := _wrong_device(devices, judged) or _wrong_dtypes(weights, judged):
            return wrong
        try:
            calls = [describe(arrange(args), arrange(kwargs)) for arrange in (dense, contiguous)]
        except Indescribable as error:
            return f"an input is a {error}, it was judged on {judged.call}"
        if judged.call not in calls:
            return f"it was judged on {judged.call}, this call is {calls[0]}"
        arrange = (dense, contiguous)[calls.index(judged.call)]
        plain = arrange(args) is args and arrange(kwargs) is kwargs
        own["_alike"], own["_arrange"] = key, None if plain else arrange
        return ""

    def _fast_forward(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[bool, Any]:
        """(True, the answer), or (False, None) where the optimised code failed; then it is not used again."""
        own = self.__dict__
        if own["_arrange"] is not None:
            args, kwargs = own["_arrange"](args), own["_arrange"](kwargs)
        if not are_aligned((args, kwargs)):
            args, kwargs = aligned(args), aligned(kwargs)
        # The boundary to code that a search wrote: it may raise anything, and the caller needs an answer.
        try:
            if own["_fast"] is not None and not torch.is_grad_enabled():
                return True, own["_fast"](args, kwargs)
            with torch.no_grad():
                own["_fast"] = own["_fast"] or _Fast(self._made(), args, kwargs)
                return True, own["_fast"](args, kwargs)
        except Exception as error:
            self._forget()
            own["_broken"] = f"its code failed ({type(error).__name__}: {error})"
            return False, None

    def _made(self) -> nn.Module:
        module: nn.Module = self.__dict__["_build"](copy.deepcopy(self.original).eval())
        return module.eval()

    def _current_weights(self) -> Weights:
        own = self.__dict__
        weights: Weights | None = own["_weights"]
        if weights is None or not weights.unchanged():
            self._forget()
            weights = own["_weights"] = Weights(self.original)
        return weights

    def _warn(self, reason: str) -> None:
        own = self.__dict__
        if not own["_warned"] and not own["training"]:
            own["_warned"] = True
            name = type(self.original).__name__
            warnings.warn(f"The original {name} answers instead of its optimised form: {reason}", stacklevel=5)


class _Fast:
    """The optimised module, called so that an answer never changes under its owner.

    Some code returns the same static memory at every call (a CUDA graph's output). Found out by calling it twice
    on the first input; its answers are then copied.
    """

    def __init__(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._module = module
        first, second = (module(*args, **kwargs) for _ in range(2))
        held = {tensor.untyped_storage().data_ptr() for tensor in tensors_in(first)}
        self._reuses = any(tensor.untyped_storage().data_ptr() in held for tensor in tensors_in(second))

    def __call__(self, args: Any, kwargs: Any) -> Any:
        result = self._module(*args, **kwargs)
        return mapped(result, torch.clone) if self._reuses else result


def _wrong_device(devices: set[torch.device], judged: Judged) -> str:
    if len(devices) > 1:
        return f"weights and inputs are on several devices ({', '.join(sorted(map(str, devices)))})"
    device = next(iter(devices), torch.device(judged.device))
    if device.type != judged.device:
        return f"it was judged on {judged.device}, this call is on {device}"
    if judged.gpu and torch.cuda.get_device_name(device) != judged.gpu:
        return f"it was judged on {judged.gpu}, this call is on {torch.cuda.get_device_name(device)}"
    return ""


def _wrong_dtypes(weights: Weights, judged: Judged) -> str:
    if judged.dtypes is None or weights.dtypes == judged.dtypes:
        return ""
    return f"it was judged with weights of type {judged.dtypes}, now they are {weights.dtypes}"


def _any_requires_grad(value: Any) -> bool:
    return any(tensor.requires_grad for tensor in tensors_in(value))
