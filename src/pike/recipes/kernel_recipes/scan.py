"""Recurrences that a model writes out step by step, as one kernel over all steps.

The recurrence is state = decay * state + drive, for example in the selective state spaces of Gu and
Dao 2023 (arXiv:2312.00752). Written out it is thousands of operators, which are launched one by one
or take minutes to compile. Exact: the same steps in the same order. Knows how states are joined and
read behind a chain. Does not know how chains are found (`recurrences`), nor the kernel
(`scan_kernel`).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from pike.recipes.capture.graph import call_before, calls, capture_graph, example_of, finish_edit, operand
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.kernel_recipes.recurrences import STEP_OPERATORS, Recurrence, Slices, recurrences
from pike.recipes.kernels.operator import define_operator
from pike.recipes.kernels.scan_kernel import scan_steps

SAVED_LAUNCHES = 0.8
"""The share of a chain's time that the kernel saves: a guess."""


def scan(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Replace every chain of elementwise steps by one call of the kernel."""
    graph = capture_graph(model, args, kwargs)
    for _ in recurrences(graph):
        for found in recurrences(graph)[:1]:  # one may begin with the state that another ends with
            replace_steps(found)
        graph.graph.eliminate_dead_code()
    finish_edit(graph)
    return graph


def replace_steps(found: Recurrence) -> None:
    """Put the kernel in front of the first step, and let all readers of states read its result."""
    begin, axis, steps = found.states[0], found.drive.axis, len(found.states)
    assert axis is not None
    aten = torch.ops.aten
    tensors = [steps_before(begin, one, axis, steps) for one in (found.decay, found.drive)]
    result = call_before(begin, scan_operator(), *tensors, found.first, axis)
    known = (found.first, *found.states)
    inside = {operand(state, place) for state in found.states for place in (0, 1)}  # the steps' products among them
    for stack in dict.fromkeys(user for state in found.states for user in state.users if calls(user, "stack")):
        if joined := joined_states(stack, known, result, axis):
            stack.replace_all_uses_with(joined)
            stack.graph.erase_node(stack)
    for place, state in enumerate(found.states):
        if any(user not in inside for user in state.users):
            after = call_before(begin, aten.select.int, result, axis, place)
            after.meta.update(state.meta)
            state.replace_all_uses_with(after, delete_user_cb=lambda user: user not in inside)


def steps_before(begin: torch.fx.Node, slices: Slices, axis: int, steps: int) -> torch.fx.Node:
    """The tensor that all steps read, with the axis of steps where the kernel wants it."""
    aten, node = torch.ops.aten, slices.tensor
    if slices.axis is None:
        shape = list(example_of(begin).shape)
        wide = call_before(begin, aten.unsqueeze.default, node, axis)
        return call_before(begin, aten.expand.default, wide, [*shape[:axis], steps, *shape[axis:]])
    if example_of(node).shape[slices.axis] != steps:
        node = call_before(begin, aten.slice.Tensor, node, slices.axis, slices.begin, slices.begin + steps)
    if slices.axis != axis:
        node = call_before(begin, aten.movedim.int, node, slices.axis, axis)
    return node


def joined_states(
    stack: torch.fx.Node, known: tuple[torch.fx.Node, ...], result: torch.fx.Node, axis: int
) -> torch.fx.Node | None:
    """The kernel's result in place of a stack of consecutive states; None for other stacks."""
    aten, parts = torch.ops.aten, tuple(operand(stack, 0))
    begin = known.index(parts[0]) if parts[0] in known else len(known)
    if known[begin : begin + len(parts)] != parts:
        return None
    joined = result
    if begin == 0:
        joined = call_before(
            stack, aten.cat.default, [call_before(stack, aten.unsqueeze.default, known[0], axis), joined], axis
        )
    offset = max(begin - 1, 0)
    if len(parts) != example_of(joined).shape[axis]:
        joined = call_before(stack, aten.slice.Tensor, joined, axis, offset, offset + len(parts))
    where = int(operand(stack, 1) or 0) % (len(example_of(known[0]).shape) + 1)
    return joined if where == axis else call_before(stack, aten.movedim.int, joined, axis, where)


def run_scan(decay: torch.Tensor, drive: torch.Tensor, first: torch.Tensor, axis: int) -> torch.Tensor:
    """The states after each step by the kernel; by PyTorch, step by step, where there is no GPU.

    Args:
        decay: what each step multiplies the state with; has one element where `drive` has several,
            or as many.
        drive: what it adds then, float32 or 16 bits.
        first: the state before the first step, without the axis of steps.
        axis: that of steps.

    Returns:
        As `drive`, contiguous.
    """
    states = empty_scan(decay, drive, first, axis)
    if drive.is_cuda:
        kept, begun = decay.expand_as(drive).to(drive.dtype), first.to(drive.dtype)
        with torch.cuda.device(drive.device):
            scan_steps(kept.contiguous(), drive.contiguous(), begun.contiguous(), states, axis)
        return states
    state = first
    for step in range(drive.shape[axis]):
        state = decay.select(axis, step) * state + drive.select(axis, step)
        states.select(axis, step).copy_(state)
    return states


def empty_scan(_decay: torch.Tensor, drive: torch.Tensor, _first: torch.Tensor, _axis: int) -> torch.Tensor:
    """An empty result of `run_scan`."""
    return drive.new_empty(drive.shape)


def scan_operator() -> Any:
    """`run_scan` as an operator."""
    schema = "(Tensor decay, Tensor drive, Tensor first, int axis) -> Tensor"
    return define_operator("pike_scan::scan", schema, run_scan, empty_scan)


def declines(problem: RecipeContext) -> str:
    """Declines where the kernel does not run, and without a chain of elementwise steps."""
    if not problem.facts.is_cuda:
        return "this kernel is for GPUs"
    return problem.no_compiler or problem.lacks(recurrences, "no chain of elementwise steps along a tensor")


def operators_of_steps(problem: RecipeContext) -> int:
    """How many operators become part of the kernel, 0 where the recipe does not apply."""
    if declines(problem):
        return 0
    assert problem.graph is not None
    return STEP_OPERATORS * sum(len(found.states) for found in recurrences(problem.graph))


def share_of_steps(problem: RecipeContext) -> float:
    """The expected log speedup, by the share of the steps' operators in all."""
    return -math.log(1.0 - SAVED_LAUNCHES * min(1.0, operators_of_steps(problem) / problem.operators))


RECIPE = Recipe(
    "scan",
    "elementwise recurrences as one kernel over all their steps",
    RecipeStage.REWRITE,
    scan,
    declines,
    suits=share_of_steps,
    blamed_for=("pike_scan", "scan_fwd", "OutOfResources"),
    saving=operators_of_steps,
)
