"""Where each tensor of a call lies in a shared region, and what structure surrounds the tensors.

Says in words what is wrong with an output. Does not know processes or devices.
"""

import copy
import math
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch

_ALIGN = 256
_ROOM = 2
"""How many times over the largest output seen an output of varying shape may have elements."""
_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""Python's numbers, the narrower first, and the elements in which they travel."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One dense tensor in a region.

    Attributes:
        shape: its shape.
        stride: its strides in elements, dense and without overlap.
        dtype: its element type.
        offset: first byte in the region, a multiple of 256.
        nbytes: bytes used.
        scalar: the type of a Python number in an output, for example `int`; empty for a tensor.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    nbytes: int
    scalar: str = ""


@dataclass(frozen=True, slots=True)
class LeafSlot:
    """The place of leaf number `index` in a structure."""

    index: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Leaves and the structure around them; a region of `nbytes` holds all leaves.

    Attributes:
        changed: of outputs: which inputs the reference changes. Their values after the call follow
            the outputs.
        varying: of outputs: which have shapes that depend on values. Each travels flat in a leaf
            with room to spare, and its shape as a further leaf at the end.
    """

    leaves: tuple[Leaf, ...]
    structure: Any
    nbytes: int
    changed: tuple[int, ...] = ()
    varying: tuple[int, ...] = ()

    @property
    def rooms(self) -> dict[int, int]:
        """How many elements each varying output may have."""
        return {index: self.leaves[index].shape[0] for index in self.varying}


class ContractBroken(Exception):
    """An output differs from the reference in structure, type, shape, dtype, device or storage."""


def take_apart(value: Any) -> tuple[list[torch.Tensor], Any]:
    """The tensors in `value`, depth first, and the structure with a `LeafSlot` in place of each."""
    tensors: list[torch.Tensor] = []

    def slot(tensor: torch.Tensor) -> LeafSlot:
        tensors.append(tensor)
        return LeafSlot(len(tensors) - 1)

    return tensors, replaced(value, torch.Tensor, slot)


def put_together(structure: Any, tensors: list[torch.Tensor]) -> Any:
    """The inverse of `take_apart`."""
    return replaced(structure, LeafSlot, lambda slot: tensors[slot.index])


def replaced(value: Any, kind: type | tuple[type, ...], replacement: Callable[[Any], Any]) -> Any:
    """A structure with something else in place of each leaf of one kind.

    Mappings and named tuples stay what they are where another process can import their class;
    otherwise they become dicts and tuples.

    This is no inner function: one that calls itself would be a reference cycle, which keeps tensors
    on the device until the garbage collector runs.
    """
    if isinstance(value, kind):
        return replacement(value)
    if isinstance(value, Mapping):
        items = {key: replaced(item, kind, replacement) for key, item in value.items()}
        if type(value) is dict or not isinstance(value, MutableMapping) or not _is_importable(type(value)):
            return items
        made = copy.copy(value)
        made.update(items)
        return made
    if isinstance(value, list):
        return [replaced(item, kind, replacement) for item in value]
    if isinstance(value, tuple):
        parts = tuple(replaced(item, kind, replacement) for item in value)
        return type(value)._make(parts) if hasattr(value, "_make") and _is_importable(type(value)) else parts
    return value


def _is_importable(kind: type) -> bool:
    """Whether a class is found by its name in a module that a child can import."""
    home = sys.modules.get(kind.__module__)
    named = kind.__module__ != "__main__" and getattr(home, kind.__name__, None) is kind
    return named and getattr(home, "__spec__", None) is not None


def layout_of(value: Any) -> Layout:
    """The layout that holds every tensor of an input structure."""
    tensors, structure = take_apart(value)
    leaves, nbytes = _placed([(t.shape, _dense_stride(t), t.dtype, "") for t in tensors])
    return Layout(leaves, structure, nbytes)


def output_layout_of(
    value: Any,
    changed: Mapping[int, torch.Tensor] | None = None,
    others: Sequence[Any] = (),
    known: Layout | None = None,
) -> Layout:
    """The layout of every tensor and Python number of an output; its structure is the signature.

    Args:
        value: what a call returned.
        changed: the inputs that the call changed.
        others: what calls on other inputs returned, to see which shapes depend on values.
        known: an earlier layout: what varies there varies here too, with at least its room.

    Raises:
        ContractBroken: the calls differ in more than the lengths of their outputs' dimensions.
    """
    leaves, rooms = flatten_output(value), dict(known.rooms) if known else {}
    if any(_outline(other) != _outline(value) for other in others):
        raise ContractBroken(
            "the structure, dtypes or dimensions of its outputs depend on the values of its inputs; "
            "return the same for all"
        )
    for index, several in enumerate(zip(leaves, *map(flatten_output, others), strict=True)):
        if index in rooms or len({leaf.shape for leaf, _ in several}) > 1:
            longest = math.prod(max(1, *sizes) for sizes in zip(*(leaf.shape for leaf, _ in several), strict=True))
            rooms[index] = _ROOM * longest if longest > rooms.get(index, 0) else rooms[index]
    found = [((rooms[index],) if index in rooms else tuple(leaf.shape), leaf.dtype, scalar)
             for index, (leaf, scalar) in enumerate(leaves)]  # fmt: skip
    found += [(tuple(tensor.shape), tensor.dtype, "") for tensor in (changed or {}).values()]
    found += [((leaves[index][0].dim(),), torch.int64, "") for index in rooms]
    placed, nbytes = _placed([(shape, _contiguous(shape), dtype, scalar) for shape, dtype, scalar in found])
    return Layout(placed, signature(value), nbytes, tuple(changed or ()), tuple(rooms))


def _outline(value: Any) -> Any:
    return signature(value), [(leaf.dtype, leaf.dim()) for leaf, _ in flatten_output(value)]


def to_deliver(leaves: list[torch.Tensor], layout: Layout, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Checked outputs as they travel, with the changed ones of `inputs` and the varying shapes."""
    if not layout.changed and not layout.varying:
        return leaves
    flat = list(leaves)
    for index in layout.varying:
        flat[index] = leaves[index].new_zeros(layout.leaves[index].shape)
        flat[index][: leaves[index].numel()] = leaves[index].reshape(-1)
    sizes = [torch.tensor(leaves[index].shape, device=leaves[index].device) for index in layout.varying]
    return [*flat, *(inputs[index].contiguous() for index in layout.changed), *sizes]


def delivered(leaves: list[torch.Tensor], layout: Layout) -> list[torch.Tensor]:
    """The inverse of `to_deliver`: outputs and changed inputs.

    Raises:
        ContractBroken: a shape that was delivered does not fit its output.
    """
    end = len(leaves) - len(layout.varying)
    for index, sizes in zip(layout.varying, leaves[end:], strict=True):
        shape = sizes.tolist()
        if min(shape) < 0 or math.prod(shape) > leaves[index].numel():
            raise ContractBroken(f"output {index} cannot have shape {shape}")
        leaves[index] = leaves[index][: math.prod(shape)].view(shape)
    return leaves[:end]


def flatten_output(value: Any) -> list[tuple[torch.Tensor, str]]:
    """The tensors of an output, Python numbers turned into 0-d CPU tensors named by their type."""
    if isinstance(value, torch.Tensor):
        if problem := not_dense(value):
            raise ContractBroken(f"an output is {problem}; return a dense tensor, for example with to_dense()")
        return [(value, "")]
    for kind, dtype in _NUMBERS.items():
        if isinstance(value, kind):
            return [(torch.tensor(value, dtype=dtype), kind.__name__)]
    if (parts := _named_parts(value)) is not None:
        return [leaf for item in parts.values() for leaf in flatten_output(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flatten_output(item)]
    if value is None or isinstance(value, str):
        return []
    raise ContractBroken(
        f"an output holds a {type(value).__name__}; return only tensors, numbers, strings and containers of them "
        "(a transformers model: use_cache=False)"
    )


def _named_parts(value: Any) -> Mapping[Any, Any] | None:
    """The items of a mapping or the fields of a dataclass; None of anything else."""
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return None


def not_dense(tensor: torch.Tensor) -> str:
    """What a tensor is that no shared region can hold, in words; empty if it is dense."""
    if tensor.is_nested:
        return "a nested tensor"
    if tensor.is_quantized:
        return "a quantized tensor"
    return "" if tensor.layout is torch.strided else f"a tensor of layout {tensor.layout}"


def signature(value: Any) -> str:
    """The structure of an output in words: containers, keys, order and strings, `T` for a tensor."""
    if isinstance(value, torch.Tensor):
        return "T" if type(value) is torch.Tensor else type(value).__name__
    if isinstance(value, str):
        return repr(value)
    if (parts := _named_parts(value)) is not None:
        return f"{type(value).__name__}({', '.join(f'{key}={signature(item)}' for key, item in parts.items())})"
    if isinstance(value, list | tuple):
        # Results of torch's operators count as tuples.
        name = "tuple" if type(value).__module__ == "torch.return_types" else type(value).__name__
        return f"{name}({', '.join(signature(item) for item in value)})"
    return type(value).__name__


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
        value: the candidate's output.
        layout: of the reference's.
        device: where tensors must be.
        inputs: tensors whose storage an output may not share; empty to allow it.

    Raises:
        ContractBroken: in words that help to repair the candidate.
    """
    if layout.structure == "T" and not layout.varying and _is_as_wanted(value, layout.leaves[0], device, inputs):
        return [value]
    found = signature(value)
    if found != layout.structure:
        raise ContractBroken(f"the output is {found}, the reference returns {layout.structure} (T is a tensor)")
    leaves = [leaf for leaf, _ in flatten_output(value)]
    for index, (leaf, want) in enumerate(zip(leaves, layout.leaves, strict=False)):
        if index in layout.varying:
            rank = layout.leaves[layout.varying.index(index) - len(layout.varying)].shape[0]
            if leaf.dim() != rank or leaf.numel() > want.shape[0]:
                raise ContractBroken(
                    f"output {index} has shape {list(leaf.shape)}, expected {rank} dimensions and at most "
                    f"{want.shape[0]} elements"
                )
        elif tuple(leaf.shape) != want.shape:
            raise ContractBroken(f"output {index} has shape {list(leaf.shape)}, expected {list(want.shape)}")
        if leaf.dtype != want.dtype:
            raise ContractBroken(f"output {index} has dtype {leaf.dtype}, expected {want.dtype}")
        if not want.scalar and leaf.device != device:
            raise ContractBroken(f"output {index} is on {leaf.device}, expected {device}")
        if any(_overlap(leaf, other) for other in inputs):
            raise ContractBroken(f"output {index} shares memory with an input; return a new tensor")
    return leaves


def _is_as_wanted(value: Any, want: Leaf, device: torch.device, inputs: list[torch.Tensor]) -> bool:
    """The whole check for one plain tensor, within a microsecond or two; False decides nothing."""
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
    channels_last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return tuple(tensor.stride()) if channels_last or tensor.is_contiguous() else _contiguous(tuple(tensor.shape))


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _placed(wanted: list[tuple[Any, tuple[int, ...], torch.dtype, str]]) -> tuple[tuple[Leaf, ...], int]:
    leaves, offset = [], 0
    for shape, stride, dtype, scalar in wanted:
        nbytes = math.prod(shape) * dtype.itemsize
        leaves.append(Leaf(tuple(shape), stride, dtype, offset, nbytes, scalar))
        offset += -(-max(nbytes, 1) // _ALIGN) * _ALIGN
    return tuple(leaves), max(offset, _ALIGN)
