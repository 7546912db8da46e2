"""Whether a task can be judged at all, and the layout of its calls.

Finds the faults that are the task's own before any candidate could be blamed for them: inputs that
no region can hold or that differ in more than values, answers that differ without a reason, and
answers in which nothing can be compared. Does not know candidates.
"""

import pickle
import random
import secrets
import time
from collections.abc import Callable, Iterable
from textwrap import shorten
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from pike.core import figures
from pike.core.errors import UserError
from pike.core.task import Task, TaskKind
from pike.judge.child.memory.layout import (
    ContractBroken,
    Layout,
    flatten_output,
    layout_of,
    output_layout_of,
    signature,
    take_apart,
)
from pike.judge.child.orders import Shape
from pike.judge.correctness.compare import repeats
from pike.judge.reference.forward import Returned, run
from pike.judge.reference.reference import Inputs, require_dense
from pike.judge.refusal import lacks_host_memory

_FIRST_VERDICT_CALLS = 30
"""About how often the original is called until a first verdict, at the least: 37 times at a second a call."""
_DRAWING_CALLS, _DRAWING_SECONDS = 30, 1.0
"""How often a reference that draws random numbers is called, at most or for about as long, to see if they matter."""
_REPAIR = "call it on its inputs in eval mode and repair what it raises"
_YOURS = (
    "; if it runs on yours, an input that PIKE drew or rebuilt failed: give a function as example_inputs that draws "
    "right ones, in tuples and dicts"
)
_SMALLER = "take a smaller model or batch, or a device with more memory"


def checked_example(task: Task, draw: Callable[[int], Inputs]) -> Inputs:
    """One draw, after checking that two seeds agree in all but values, and that a seed decides.

    Raises:
        UserError: they do not, or the inputs are not such as a child can be sent.
    """
    seed = secrets.randbits(63)
    first, again, other = draw(seed), draw(seed), draw(secrets.randbits(63))
    tensors, structure = take_apart((first.args, first.kwargs))
    plain = int | float | complex | str | None
    unlike = [type(one).__name__ for one in tree_leaves(structure) if not isinstance(one, plain)]
    if unlike and not tensors:
        raise UserError(
            f"Task '{task.id}': its inputs hold a value of type {unlike[0]} and no tensor; give tensors, alone or in "
            "tuples, lists and dicts, and make anything else of them in forward()"
        )
    if not any(tensor.numel() for tensor in tensors):
        raise UserError(
            f"Task '{task.id}': its inputs hold {'only empty tensors' if tensors else 'no tensor'}, so every call "
            "has the same answer; draw an input tensor with at least one row"
        )
    require_dense(task, first)
    try:
        pickle.loads(pickle.dumps(structure))
    except Exception as error:  # an object of the user's may raise anything; a packed sequence without tensors does
        raise UserError(
            f"Task '{task.id}': its inputs cannot be sent to another process ({error}); "
            "give tensors, numbers, strings and containers of them"
        ) from error
    layout = layout_of((first.args, first.kwargs))
    check_alike(task, again, layout)
    check_alike(task, other, layout)
    theirs, _ = take_apart((again.args, again.kwargs))
    if not all(_same_bytes(one, two) for one, two in zip(tensors, theirs, strict=True)):
        raise UserError(
            f"Task '{task.id}': get_inputs() gives other values for the same random seed; "
            "draw from torch's, numpy's or random's global generator"
        )
    return first


def check_alike(task: Task, inputs: Inputs, layout: Layout) -> None:
    """Check that inputs differ from the example's layout in no more than the values of tensors.

    Raises:
        UserError: they do.
    """
    if not is_alike(inputs, layout):
        raise UserError(
            f"Task '{task.id}': its inputs differ in more than the values of tensors from one random seed to another; "
            "draw tensors of one shape and dtype, keep Python numbers fixed, and put other shapes into "
            "get_held_out_inputs()"
        )


def is_alike(inputs: Inputs, layout: Layout) -> bool:
    """Whether inputs differ from a layout in no more than the values of tensors."""
    tensors, structure = take_apart((inputs.args, inputs.kwargs))
    found = [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]
    return found == [(leaf.shape, leaf.dtype) for leaf in layout.leaves] and _equal(structure, layout.structure)


def shape_of(
    task: Task,
    model: nn.Module,
    example: Inputs,
    device: torch.device,
    others: Iterable[Inputs] = (),
    known: Layout | None = None,
    limit_seconds: float = 0.0,
) -> Shape:
    """The layout of the task's calls, from two calls on `example` and one on each of the `others`.

    `known` is an earlier layout of the outputs, of which nothing is forgotten. `limit_seconds` is 0
    where a call may take any time.

    Raises:
        UserError: the reference does not run or takes too long, or two calls on the same inputs differ.
        torch.OutOfMemoryError: the device is too small, or too full.
    """
    changed: dict[int, torch.Tensor] = {}
    try:
        before = _generators(device)
        began = time.monotonic()
        one = run(model, example, device)
        _require_time(task, time.monotonic() - began, 1, limit_seconds)  # it may compile, so a second one counts
        first = [leaf.clone() for leaf in one.leaves(())]  # the next call may write into the same memory
        began = time.monotonic()
        two = run(model, example, device)
        _require_time(task, time.monotonic() - began, _FIRST_VERDICT_CALLS, limit_seconds)
        drew = _generators(device) != before
        given, _ = take_apart((example.args, example.kwargs))
        changed = {
            index: after
            for index, (before, after) in enumerate(zip(given, one.inputs, strict=True))
            if not _same_bytes(before.to(device), after)
        }
        same = _is_same(one, two, tuple(changed)) and all(map(repeats, first, two.leaves(())))
        drew = drew and not (same and _draws_nothing_that_matters(model, example, device, tuple(changed)))
        values = [run(model, other, device).value for other in others]
        outputs = output_layout_of(one.value, changed, values, known)
        returned = [leaf for value in values for leaf, _ in flatten_output(value)]
        _require_numbers(task, one.value, [*one.leaves(tuple(changed)), *returned])
    except (torch.OutOfMemoryError, UserError):
        raise
    except ContractBroken as error:
        raise UserError(f"The reference model of '{task.id}' cannot be judged: {error}") from error
    except Exception as error:  # the reference is the user's own code and may raise anything
        words = f"{type(error).__name__}: {error}".partition("\n")[0]
        yours = _YOURS if task.kind is TaskKind.MODULE else ""
        cure = _SMALLER if lacks_host_memory(error) else _REPAIR + yours
        raise UserError(f"The reference model of '{task.id}' does not run ({words}); {cure}") from error
    if drew or not same:
        what = "draws random numbers in forward()" if drew else "gives two answers for the same inputs"
        raise UserError(
            f"Task '{task.id}': its reference {what}, so nothing can be compared with its answers; switch dropout off, "
            "take random tensors as inputs, and keep no state between calls"
        )
    ours = {tensor.untyped_storage().data_ptr() for tensor in one.inputs}
    may_alias = any(leaf.untyped_storage().data_ptr() in ours for leaf, _ in flatten_output(one.value))
    return Shape(layout_of((example.args, example.kwargs)), outputs, may_alias, 1)


def _require_time(task: Task, seconds: float, calls: int, limit_seconds: float) -> None:
    """Refuse a reference of which so many calls take longer than the run may."""
    if limit_seconds and calls * seconds > limit_seconds:
        raise UserError(
            f"Task '{task.id}': a call of its original takes {figures.duration(seconds)} and a first verdict about "
            f"{_FIRST_VERDICT_CALLS} of them, but the run has {figures.duration(limit_seconds)}; give it more time "
            "(--max-minutes) or smaller inputs"
        )


def _require_numbers(task: Task, value: Any, leaves: list[torch.Tensor]) -> None:
    """Refuse outputs in which there is nothing to compare."""
    if not any(leaf.numel() for leaf in leaves):
        raise UserError(
            f"Task '{task.id}': its reference returns {shorten(signature(value), 80)}, in which there is nothing to "
            "compare; return a tensor or a number, and draw at least one row"
        )
    if not any(_has_a_number(leaf) for leaf in leaves):
        raise UserError(
            f"Task '{task.id}': its reference returns nothing but NaN and infinities, so no error can be measured; "
            "initialise its weights, and draw inputs that it is made for"
        )


def _has_a_number(leaf: torch.Tensor) -> bool:
    return not leaf.is_floating_point() or bool((leaf.float() if leaf.itemsize == 1 else leaf).isfinite().any())


def _is_same(one: Returned, two: Returned, changed: tuple[int, ...]) -> bool:
    ours, theirs = one.leaves(changed), two.leaves(changed)
    return len(ours) == len(theirs) and all(repeats(a, b) for a, b in zip(ours, theirs, strict=True))


def _draws_nothing_that_matters(
    model: nn.Module, example: Inputs, device: torch.device, changed: tuple[int, ...]
) -> bool:
    """Whether answers are the same to the last bit whatever is drawn, and no generator is set.

    Layers that are dropped in training often draw a number in eval mode too.
    """
    answers: list[list[torch.Tensor]] = []
    ends: list[tuple[bytes, ...]] = []
    until = time.monotonic() + _DRAWING_SECONDS
    while len(ends) < 3 or (len(ends) < _DRAWING_CALLS and time.monotonic() < until):
        torch.rand(1), torch.rand(1, device=device), random.random(), np.random.random()
        answers = [*answers[:1], [leaf.clone() for leaf in run(model, example, device).leaves(changed)]]
        ends.append(_generators(device))
        if len(answers[0]) != len(answers[-1]) or not all(map(_same_bytes, answers[0], answers[-1])):
            return False
    return all(len(set(states)) == len(ends) for states in zip(*ends, strict=True))


def _generators(device: torch.device) -> tuple[bytes, ...]:
    """The states of the generators that everyone shares."""
    states = [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]
    return tuple(map(pickle.dumps, (*(state.tolist() for state in states), random.getstate(), np.random.get_state())))


def _same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype are equal, NaN included."""
    if one.dtype != other.dtype:
        return False
    one, other = one.resolve_conj().resolve_neg(), other.resolve_conj().resolve_neg()
    if one.dtype.is_floating_point or one.dtype.is_complex:
        one, other = one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8)
    return torch.equal(one, other.to(one.device))


def _equal(one: Any, other: Any) -> bool:
    try:
        if bool(one == other):
            return True
    except Exception:  # an object of the user's may compare in any way
        pass
    return pickle.dumps(one) == pickle.dumps(other)
