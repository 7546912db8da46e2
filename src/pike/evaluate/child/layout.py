"""Where each tensor of a call lies in a shared region, and what structure surrounds the tensors.

Knows how to take inputs and outputs apart into tensor leaves and a structure of plain values, how to put them
together again over a region of bytes, and how to say what is wrong with an output. Does not know processes or
devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

_ALIGN = 256


@dataclass(frozen=True, slots=True)
class Leaf:
    """One dense tensor in a region.

    Attributes:
        shape: its shape.
        stride: its strides in elements, dense and without overlap.
        dtype: its element type.
        offset: first byte in the region, a multiple of 256.
        nbytes: bytes used.
        scalar: `int`, `float` or `bool` where the leaf is a Python number in an output, else empty.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    nbytes: int
    scalar: str = ""


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of leaf number `index` in a structure."""

    index: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Leaves and the structure around them; `nbytes` is the size of the region that holds all leaves."""

    leaves: tuple[Leaf, ...]
    structure: Any
    nbytes: int


class ContractBroken(Exception):
    """An output differs from the reference in structure, type, shape, dtype, device or storage."""


def take_apart(value: Any) -> tuple[list[torch.Tensor], Any]:
    """The tensors in `value`, depth first, and the structure with a `Slot` in place of each."""
    tensors: list[torch.Tensor] = []

    def slot(tensor: torch.Tensor) -> Slot:
        tensors.append(tensor)
        return Slot(len(tensors) - 1)

    return tensors, _replaced(value, torch.Tensor, slot)


def put_together(structure: Any, tensors: list[torch.Tensor]) -> Any:
    """The value that `take_apart` took apart, over other tensors; mappings become dicts, tuples plain tuples."""
    return _replaced(structure, Slot, lambda slot: tensors[slot.index])


def _replaced(value: Any, kind: type, replacement: Callable[[Any], Any]) -> Any:
    """A structure with something else in place of each leaf of one kind.

    Not a function inside another: one that calls itself there is a cycle of references, which keeps a call's tensors on
    the device until the garbage collector happens to run.
    """
    if isinstance(value, kind):
        return replacement(value)
    if isinstance(value, Mapping):
        return {key: _replaced(item, kind, replacement) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, kind, replacement) for item in value]
    if isinstance(value, tuple):
        return tuple(_replaced(item, kind, replacement) for item in value)
    return value


def layout_of(value: Any) -> Layout:
    """The layout that holds every tensor of an input structure."""
    tensors, structure = take_apart(value)
    leaves, nbytes = _place([(t.shape, _dense_stride(t), t.dtype, "") for t in tensors])
    return Layout(leaves, structure, nbytes)


def output_layout_of(value: Any) -> Layout:
    """The layout that holds every tensor and every Python number of an output, with its signature as structure."""
    leaves, nbytes = _place(
        [
            (tuple(leaf.shape), _contiguous(tuple(leaf.shape)), leaf.dtype, scalar)
            for leaf, scalar in flatten_output(value)
        ]
    )
    return Layout(leaves, signature(value), nbytes)


def flatten_output(value: Any) -> list[tuple[torch.Tensor, str]]:
    """The tensors of an output, Python numbers turned into 0-d CPU tensors named by their type."""
    if isinstance(value, torch.Tensor):
        return [(value, "")]
    if isinstance(value, bool | int | float):
        kind = type(value).__name__
        dtype = {"bool": torch.bool, "int": torch.int64, "float": torch.float64}[kind]
        return [(torch.tensor(value, dtype=dtype), kind)]
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in flatten_output(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flatten_output(item)]
    if value is None:
        return []
    raise ContractBroken(
        f"an output holds a {type(value).__name__}; only tensors, numbers and containers are supported"
    )


def signature(value: Any) -> str:
    """The structure of an output in words: container types, keys and order, `T` for each tensor."""
    if isinstance(value, torch.Tensor):
        return "T" if type(value) is torch.Tensor else type(value).__name__
    if isinstance(value, Mapping):
        return f"{type(value).__name__}({', '.join(f'{key}={signature(item)}' for key, item in value.items())})"
    if isinstance(value, list | tuple):
        return f"{_sequence_name(value)}({', '.join(signature(item) for item in value)})"
    return type(value).__name__


def _sequence_name(value: Any) -> str:
    """What torch's own operators return (`torch.topk`, `torch.max`) is a tuple to whoever unpacks it."""
    return "tuple" if type(value).__module__ == "torch.return_types" else type(value).__name__


def views(region: torch.Tensor, layout: Layout) -> list[torch.Tensor]:
    """Tensors over a uint8 region, one for each leaf; no copy."""
    made = []
    for leaf in layout.leaves:
        flat = region[leaf.offset : leaf.offset + leaf.nbytes].view(leaf.dtype)
        made.append(flat.as_strided(leaf.shape, leaf.stride))
    return made


def check_output(value: Any, layout: Layout, device: torch.device, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves of a candidate's output, once they agree with the reference's layout.

    Args:
        value: what the candidate returned.
        layout: the reference's output layout.
        device: where tensors must be.
        inputs: the tensors that were handed in; an output may not share their storage. Empty to allow it.

    Raises:
        ContractBroken: in words that help to repair the candidate.
    """
    if layout.structure == "T" and _is_as_wanted(value, layout.leaves[0], device, inputs):
        return [value]
    found = signature(value)
    if found != layout.structure:
        raise ContractBroken(f"the output is {found}, the reference returns {layout.structure} (T is a tensor)")
    leaves = [leaf for leaf, _ in flatten_output(value)]
    for index, (leaf, want) in enumerate(zip(leaves, layout.leaves, strict=True)):
        if tuple(leaf.shape) != want.shape:
            raise ContractBroken(f"output {index} has shape {list(leaf.shape)}, expected {list(want.shape)}")
        if leaf.dtype != want.dtype:
            raise ContractBroken(f"output {index} has dtype {leaf.dtype}, expected {want.dtype}")
        if not want.scalar and leaf.device != device:
            raise ContractBroken(f"output {index} is on {leaf.device}, expected {device}")
        if any(_overlap(leaf, other) for other in inputs):
            raise ContractBroken(f"output {index} shares memory with an input; return a new tensor")
    return leaves


def _is_as_wanted(value: Any, want: Leaf, device: torch.device, inputs: list[torch.Tensor]) -> bool:
    """The whole check for what most models return, within a microsecond or two; False decides nothing."""
    if type(value) is not torch.Tensor or not value.is_contiguous():
        return False
    start, nbytes = value.data_ptr(), value.nbytes
    apart = all(start + nbytes <= other.data_ptr() or other.data_ptr() + other.nbytes <= start for other in inputs)
    return apart and value.shape == want.shape and value.dtype == want.dtype and value.device == device


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.device != other.device or not one.numel() or not other.numel():
        return False
    first, second = one.untyped_storage(), other.untyped_storage()
    return (
        first.data_ptr() < other.data_ptr() + other.numel() * other.element_size()
        and other.data_ptr() < first.data_ptr() + first.nbytes()
        and second.data_ptr() != 0
    )


def _dense_stride(tensor: torch.Tensor) -> tuple[int, ...]:
    if tensor.is_contiguous():
        return tuple(tensor.stride())
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return tuple(tensor.stride())
    return _contiguous(tuple(tensor.shape))


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _place(wanted: list[tuple[Any, tuple[int, ...], torch.dtype, str]]) -> tuple[tuple[Leaf, ...], int]:
    leaves, offset = [], 0
    for shape, stride, dtype, scalar in wanted:
        count = 1
        for size in shape:
            count *= size
        nbytes = count * dtype.itemsize
        leaves.append(Leaf(tuple(shape), stride, dtype, offset, nbytes, scalar))
        offset += -(-max(nbytes, 1) // _ALIGN) * _ALIGN
    return tuple(leaves), max(offset, _ALIGN)
