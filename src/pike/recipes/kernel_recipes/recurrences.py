"""Chains of elementwise steps in a graph, as a loop over tokens leaves them.

A step is state = decay * state + drive. Knows products and sums in which each step reads the next
slice of two tensors, and which states a kernel can take. Does not know what becomes of the chains
(`scan`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from pike.recipes.capture.graph import calls, example_of, nodes_calling, operand

STEP_OPERATORS = 4
"""Two slices, a product and a sum."""
LEAST_STEPS = 4
"""Shorter chains are left to compilers."""
LEAST_NEIGHBOURS = 16
"""With fewer neighbouring states, loads are too short to use the memory's bandwidth."""


class Slices(NamedTuple):
    """What the steps of a chain read: slices along an axis, or all of a tensor (None)."""

    tensor: torch.fx.Node
    axis: int | None
    begin: int


class Recurrence(NamedTuple):
    """A chain of steps found in a graph.

    Attributes:
        first: the state before the first step.
        decay: what the first step multiplies the state with; later ones follow.
        drive: what it adds then.
        states: the sums that end the steps, in order.
    """

    first: torch.fx.Node
    decay: Slices
    drive: Slices
    states: tuple[torch.fx.Node, ...]


def recurrences(graph: torch.fx.GraphModule) -> list[Recurrence]:
    """All chains of a graph that are long enough for the kernel, and whose states it can take."""
    ends: dict[torch.fx.Node, list[Recurrence]] = {}
    for node in nodes_calling(graph, "add"):
        going_on = []
        for state, decay, drive in readings_of(node):
            for chain in ends.get(state, []):
                steps = len(chain.states)
                if is_next(chain.decay, decay, steps) and is_next(chain.drive, drive, steps):
                    going_on.append(chain._replace(states=(*chain.states, node)))
        for chain in going_on:
            ends.pop(chain.states[-2], None)
        ends[node] = going_on or [Recurrence(state, decay, drive, (node,)) for state, decay, drive in readings_of(node)]
    return [chains[0] for chains in ends.values() if chains and len(chains[0].states) >= LEAST_STEPS]


def readings_of(node: torch.fx.Node) -> list[tuple[torch.fx.Node, Slices, Slices]]:
    """The ways in which a sum may be a step: (state before it, decay, drive)."""
    example = example_of(node)
    found: list[tuple[torch.fx.Node, Slices, Slices]] = []
    if node.kwargs or not isinstance(example, torch.Tensor) or not example.is_floating_point():
        return []
    for product, drive in (operand(node, 0), operand(node, 1)), (operand(node, 1), operand(node, 0)):
        if not calls(product, "mul") or len(product.users) != 1 or not is_like(drive, example):
            continue
        pair = operand(product, 0), operand(product, 1)
        for decay, state in (pair, pair[::-1]):
            if is_like(state, example) and is_like(decay, example) and is_good(example, state, slices_of(drive)):
                found.append((state, slices_of(decay), slices_of(drive)))
    return found


def is_like(node: Any, example: torch.Tensor) -> bool:
    """Whether a node's value has a state's dtype and axes, and broadcasts to its shape."""
    value = example_of(node) if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or (value.dtype, value.dim()) != (example.dtype, example.dim()):
        return False
    return all(size in (1, whole) for size, whole in zip(value.shape, example.shape, strict=True))


def is_good(example: torch.Tensor, state: torch.fx.Node, drive: Slices) -> bool:
    """Whether the kernel takes states of this dtype, and enough of them are neighbours."""
    if drive.axis is None or example.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return False
    whole = list(example_of(drive.tensor).shape)
    del whole[drive.axis]
    alike = list(example_of(state).shape) == whole == list(example.shape)
    return alike and example.shape[drive.axis :].numel() >= LEAST_NEIGHBOURS


def is_next(slices: Slices, later: Slices, steps: int) -> bool:
    """Whether a reading continues a chain's first reading after this many steps."""
    moved = 0 if slices.axis is None else steps
    return later == slices._replace(begin=slices.begin + moved)


def slices_of(node: torch.fx.Node) -> Slices:
    """The reading of a step, as if it were the first of a chain."""
    if not calls(node, "select"):
        return Slices(node, None, 0)
    source, axis, index = operand(node, 0), int(operand(node, 1)), int(operand(node, 2))
    shape = example_of(source).shape
    return Slices(source, axis % len(shape), index % shape[axis])
