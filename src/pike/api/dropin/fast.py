"""The optimised module, called so that later calls leave an answer as it is.

Some code returns memory that it uses again: a CUDA graph's output, or one of several buffers in
turn. An answer is copied if anything but the caller still refers to it, or to its memory.
"""

import copy
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from pike.api.dropin.trees import bytes_of, mapped, overlap
from pike.engine.output.signature import tensors_in

_SHARED = "it writes into its inputs, and these share memory"


class Fast:
    """An optimised module; only one thread may be in it at a time.

    Two calls on copies of the first input show whether it returns the same memory without holding it, and whether it
    writes into its inputs. Such code gets copies at every call, and what it wrote is written back: code that fails
    leaves the caller's tensors as they were.
    """

    def __init__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._module = module
        self._stream: torch.cuda.Stream | None = None
        self._written: set[int] = set()
        first, second = (self._tried((args, kwargs)) for _ in range(2))
        held = {tensor.untyped_storage().data_ptr() for tensor in tensors_in(first)}
        self._reuses = any(tensor.untyped_storage().data_ptr() in held for tensor in tensors_in(second))

    @property
    def writes(self) -> bool:
        """Whether it writes into its inputs."""
        return bool(self._written)

    def refuses(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Say why it cannot answer these arguments of the caller, empty if it can."""
        return _SHARED if self._written and overlap(tensors_in((args, kwargs))) else ""

    def written_back(self, arranged: Any, given: Any) -> Any:
        """Answer a call of code that writes into its inputs, for arguments that the caller gave in any layout."""
        copies = mapped(arranged, torch.clone)
        answer = self(*copies)
        for place, (changed, own) in enumerate(zip(tensors_in(copies), tensors_in(given), strict=True)):
            if place in self._written:
                own.copy_(changed)
        return answer

    def _tried(self, call: Any) -> Any:
        """The answer to a call on copies of its arguments; notes into which of them it writes."""
        copies = mapped(call, torch.clone)
        seen = [
            (copied, copied._version, given) for copied, given in zip(*map(tensors_in, (copies, call)), strict=True)
        ]
        answer = self._module(*copies[0], **copies[1])
        for place, (copied, version, given) in enumerate(seen):
            if copied._version != version or not torch.equal(bytes_of(copied), bytes_of(given)):
                self._written.add(place)
        return answer

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer a call in memory that is the caller's own."""
        tensor = next(tensors_in((args, kwargs)), None)
        if tensor is not None and tensor.is_cuda:
            stream = torch.cuda.current_stream(tensor.device)
            if self._stream is not None and stream != self._stream:
                stream.wait_stream(self._stream)  # until the last call is through with the module's memory
            self._stream = stream
        answer = [self._module(*args, **kwargs)]
        if not self._reuses and not _is_kept(answer):
            return answer[0]
        # Tensors copy what they show, not the whole of their memory.
        return copy.deepcopy(answer[0], {id(tensor): tensor.clone() for tensor in tensors_in(answer)})


def _is_kept(answer: list[Any]) -> bool:
    """Whether anything but the answer refers to one of its parts, or to the memory of its tensors."""
    if _most_names(answer) > _FRESH_NAMES:
        return True
    tensors = list(tensors_in(answer))
    bases = list({id(base): base for base in (tensor._base for tensor in tensors) if base is not None}.values())
    return _most_names(bases) > _FRESH_NAMES or _has_other_holders(tensors, bases)


def _most_names(items: Iterable[Any]) -> int:
    """The most references to one part of an answer."""
    most = 0
    for item in items:
        if isinstance(item, torch.Tensor):
            most = max(most, sys.getrefcount(item))
        elif isinstance(item, list | tuple | Mapping):
            most = max(most, sys.getrefcount(item), _most_names(item.values() if isinstance(item, Mapping) else item))
    return most


def _has_other_holders(tensors: list[torch.Tensor], bases: list[torch.Tensor]) -> bool:
    """Whether tensors beside these share their memory, or it does not belong to torch."""
    if _storage_uses is None:
        return True
    storages = [tensor.untyped_storage() for tensor in (*tensors, *bases)]
    places = [storage._cdata for storage in storages]
    # One more use is that of the storage's Python object.
    return any(
        _storage_uses(place) > places.count(place) + 1 or not storage.resizable()
        for place, storage in zip(places, storages, strict=True)
    )


_storage_uses = getattr(torch._C, "_storage_Use_Count", None)
_FRESH_NAMES = _most_names([torch.empty(0)])
