"""Sizes at the edges of a task that varies: one, and one less than what is judged.

Knows which axes vary by the other shapes that the task declares. Does not know who is tried.
"""

from collections.abc import Sequence

import torch

from pike.judge.child.memory.layout import put_together, take_apart
from pike.judge.reference.reference import Inputs


def boundary_shapes(drawn: Inputs, held_out: Sequence[Inputs]) -> list[Inputs]:
    """The drawn inputs cut along every axis in which held-out ones differ.

    None if one of the inputs holds integers: they may count or index what is cut.
    """
    tensors, structure = take_apart((drawn.args, drawn.kwargs))
    others = [take_apart((other.args, other.kwargs))[0] for other in held_out]
    alike = [other for other in others if [each.dim() for each in other] == [each.dim() for each in tensors]]
    axes = [
        (index, axis)
        for index, tensor in enumerate(tensors)
        for axis, size in enumerate(tensor.shape)
        if any(other[index].shape[axis] != size for other in alike)
    ]
    if not axes or not all(tensor.is_floating_point() for tensor in tensors):
        return []
    return [Inputs(*put_together(structure, _cut(tensors, axes, to_one))) for to_one in (True, False)]


def _cut(tensors: Sequence[torch.Tensor], axes: Sequence[tuple[int, int]], to_one: bool) -> list[torch.Tensor]:
    made = list(tensors)
    for index, axis in axes:
        size = 1 if to_one else max(1, made[index].shape[axis] - 1)
        made[index] = made[index].narrow(axis, 0, size).contiguous()
    return made
