"""Which calls were judged, and how a call differs from them.

Knows arguments, constant ones included, and what of torch's state a judge does not try. Does not
know weights.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn.modules import module as every_module
from torch.utils._device import DeviceContext

from pike.api.dropin.trees import aligned, bytes_of, contiguous
from pike.engine.output.signature import Indescribable, describe, digest, tensors_of


@dataclass(frozen=True, slots=True)
class JudgedCalls:
    """The calls that the optimised code may answer.

    Attributes:
        call: the judged call (`engine.output.signature`), None if it could not be described.
        device: `cpu` or `cuda`.
        gpu: name of the judged GPU, empty on a CPU.
        dtypes: the types of the original's weights, None where they are not known.
        constants: (place, digest) of the call's tensors that were the same in every judged call.
    """

    call: str | None
    device: str
    gpu: str = ""
    dtypes: str | None = None
    constants: tuple[tuple[int, str], ...] = ()

    def __setstate__(self, state: list[Any]) -> None:
        # A drop-in that was saved by an earlier version knows fewer fields.
        given = dict(zip((field.name for field in fields(self)), state, strict=False))
        for name, value in ({"constants": ()} | given).items():
            object.__setattr__(self, name, value)


def surroundings(judged: JudgedCalls) -> str:
    """Say what is switched on that may change an answer and was off when it was judged."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "it is called inside a transform of torch.func, such as torch.vmap"
    if forward_ad._current_level >= 0:
        return "derivatives are computed in forward mode"
    if torch.compiler.is_compiling() or torch._C._is_tracing():
        return "it is being compiled or traced"
    if torch.is_autocast_enabled(judged.device):
        return "autocast is on; it was judged without"
    if every_module._global_forward_hooks or every_module._global_forward_pre_hooks:
        return "hooks are set on all modules"
    if torch.get_default_dtype() is not torch.float32:
        return f"the default type is {torch.get_default_dtype()}; it was judged with torch.float32"
    modes = map(torch._C._get_function_stack_at, range(torch._C._len_torch_function_stack()))
    if torch._C._len_torch_dispatch_stack() or any(not isinstance(mode, DeviceContext) for mode in modes):
        return "a mode of torch that may change operators is on"
    if judged.device == "cuda" and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return "it is being captured into a CUDA graph, which would keep its weights of today"
    return ""


_LAYOUTS = (partial(contiguous, channels_last=True), contiguous)
"""The layouts of the judge, the likelier first."""


class Arguments:
    """Compares the arguments of calls with the judged one's.

    Attributes:
        alike: the key (`trees.key_of`) of calls that are known to be alike.
    """

    def __init__(self, judged: JudgedCalls) -> None:
        self._judged = judged
        self.alike: Any = None
        self._arrange: Callable[[Any], Any] | None = None
        self._constants: dict[int, tuple[torch.Tensor, Any, torch.Tensor]] = {}

    def unlike(self, key: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], devices: set[torch.device]) -> str:
        """Say how a call with this key differs from the judged one, empty if it does not."""
        if key is None or key != self.alike:
            if wrong := self._other_form(args, kwargs, devices):
                return wrong
            self.alike = key
        if not self._judged.constants:
            return ""
        return self._other_constants(tensors_of(args, kwargs))

    def arranged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of an alike call in the judged layout, at aligned addresses."""
        if self._arrange is not None:
            args, kwargs = self._arrange(args), self._arrange(kwargs)
        return aligned(args), aligned(kwargs)

    def forget(self) -> None:
        """Describe the next call again: the weights may be elsewhere."""
        self.alike = None

    def _other_form(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], devices: set[torch.device]) -> str:
        devices = devices | {tensor.device for tensor in tensors_of(args, kwargs)}
        if wrong := _wrong_device(devices, self._judged):
            return wrong
        try:
            calls = [describe(arrange(args), arrange(kwargs)) for arrange in _LAYOUTS]
        except Indescribable as error:
            return f"an input is a {error}, it was judged on {self._judged.call}"
        if self._judged.call not in calls:
            return f"it was judged on {self._judged.call}, this call is {calls[0]}"
        arrange = _LAYOUTS[calls.index(self._judged.call)]
        plain = arrange(args) is args and arrange(kwargs) is kwargs
        self._arrange = None if plain else arrange
        return ""

    def _other_constants(self, tensors: list[torch.Tensor]) -> str:
        for place, name in self._judged.constants:
            tensor, known = tensors[place], self._constants.get(place)
            if known is not None and _equal(tensor, *known):
                continue
            if digest(tensor) != name:
                return f"input {place + 1} is not the tensor that it was judged with, for example a mask of ones"
            self._constants[place] = tensor, _version(tensor), bytes_of(tensor).clone()
        return ""


def _equal(tensor: torch.Tensor, known: torch.Tensor, version: Any, content: torch.Tensor) -> bool:
    """Whether a tensor still is, or equals, a known one; on a GPU an unchanged one is not read."""
    if tensor is known and not tensor.is_cpu and version is not None and _version(tensor) == version:
        return True
    return tensor.device == content.device and tensor.nbytes == len(content) and torch.equal(bytes_of(tensor), content)


def _version(tensor: torch.Tensor) -> tuple[int, int] | None:
    return None if tensor.is_inference() else (tensor._version, tensor.data_ptr())


def _wrong_device(devices: set[torch.device], judged: JudgedCalls) -> str:
    if len(devices) > 1:
        return f"weights and inputs are on several devices ({', '.join(sorted(map(str, devices)))})"
    device = next(iter(devices), torch.device(judged.device))
    if device.type != judged.device:
        return f"it was judged on {judged.device}, this call is on {device}"
    if judged.gpu and torch.cuda.get_device_name(device) != judged.gpu:
        return f"it was judged on {judged.gpu}, this call is on {torch.cuda.get_device_name(device)}"
    return ""
