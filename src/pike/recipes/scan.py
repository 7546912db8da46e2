"""Recurrences that a model writes out step by step, state = decay * state + drive, as one kernel over all steps.

The selective state spaces of Gu and Dao 2023 (arXiv:2312.00752), evaluated in order, are such. Written out they are
thousands of operators, which are launched one by one or take minutes to compile. Exact: the same steps in the same
order. Knows how states are joined and read behind a chain. Does not know how chains are found (`steps`), nor the kernel
(`scan_kernel`).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from pike.recipes.graph import call_before, calls, capture_graph, example_of, finish_edit, operand
from pike.recipes.recipe import Problem, Recipe, Stage, needs_graph
from pike.recipes.scan_kernel import scan_steps
from pike.recipes.steps import STEP_OPERATORS, Recurrence, Slices, recurrences

SAVED_LAUNCHES = 0.8
"""The share of the time of a chain's operators that need not be: a guess."""


def scan(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Replace every chain of elementwise steps by one call of the kernel."""
    graph = capture_graph(model, args, kwargs)
    define_scan()
    for _ in recurrences(graph):
        for found in recurrences(graph)[:1]:  # one may begin with the state that another ends with
            replace_steps(found)
        graph.graph.eliminate_dead_code()
    finish_edit(graph)
    return graph


def replace_steps(found: Recurrence) -> None:
    """Put the kernel in front of the first step, and have all that reads states read its result."""
    begin, axis, steps = found.states[0], found.drive.axis, len(found.states)
    assert axis is not None
    aten = torch.ops.aten
    tensors = [steps_before(begin, one, axis, steps) for one in (found.decay, found.drive)]
    result = call_before(begin, torch.ops.pike_scan.scan.default, *tensors, found.first, axis)
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
    """What all steps read, with their axis where the kernel wants it."""
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
    """What stands for a stack of states one after the other, the first of all perhaps among them; None for others."""
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
        decay: what each step multiplies the state with; has one element where `drive` has several, or as many.
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
    """What `run_scan` returns, without data."""
    return drive.new_empty(drive.shape)


def define_scan() -> None:
    """Make `run_scan` an operator, so that compilers leave it alone; once in a process."""
    if hasattr(torch.ops.pike_scan, "scan"):
        return
    torch.library.define("pike_scan::scan", "(Tensor decay, Tensor drive, Tensor first, int axis) -> Tensor")
    torch.library.impl("pike_scan::scan", "CompositeExplicitAutograd", run_scan)
    torch.library.register_fake("pike_scan::scan", empty_scan)


def declines(problem: Problem) -> str:
    """Declines where the kernel does not run, and without a chain of elementwise steps."""
    if not problem.facts.is_cuda:
        return "this kernel is for GPUs"
    if problem.graph is None or problem.no_compiler:
        return problem.no_compiler or needs_graph(problem)
    return "" if recurrences(problem.graph) else "no chain of elementwise steps along a tensor"


def share_of_steps(problem: Problem) -> float:
    """What to expect as log speedup, by the share of the steps' operators in all."""
    if problem.graph is None:
        return 0.0
    count = sum(node.op == "call_function" for node in problem.graph.graph.nodes)
    steps = STEP_OPERATORS * sum(len(found.states) for found in recurrences(problem.graph))
    return -math.log(1.0 - SAVED_LAUNCHES * min(1.0, steps / max(count, 1)))


RECIPE = Recipe(
    "scan",
    "elementwise recurrences as one kernel over all their steps",
    Stage.REWRITE,
    scan,
    declines,
    suits=share_of_steps,
    blamed_for=("pike_scan", "scan_block", "OutOfResources"),
)
