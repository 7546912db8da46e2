"""What can be optimised, and how it becomes a task.

Knows the forms in which people name a target and write example inputs. Does not know how a task is found (`tasks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pike import tasks
from pike.core.errors import UserError
from pike.core.task import Task
from pike.tasks.callables import Call, as_call


def call_of(example_inputs: Any) -> Call:
    """Example inputs as one call.

    Args:
        example_inputs: a tensor, a sequence of arguments, a mapping of keyword arguments, or an (args, kwargs) pair.
    """
    return as_call(example_inputs) or Call((example_inputs,), {})


def task_of(target: Any, example_inputs: Any, folder: Path) -> Task:
    """The task that `target` names.

    Args:
        target: a task, a live module, a path, `SUITE/ID` or `package.module:callable`.
        example_inputs: for a live module: its example inputs, or a function without arguments that draws them.
        folder: where a live module is kept; made only for one.

    Raises:
        UserError: nothing is found under that name, or a live module comes without inputs.
    """
    if isinstance(target, Task):
        return target
    if isinstance(target, str | Path):
        return tasks.resolve(str(target), folder=folder)
    if not _is_module(target):
        raise UserError(
            f"Cannot optimise a {type(target).__name__}: give a torch.nn.Module, a file, SUITE/ID or "
            "package.module:callable"
        )
    if example_inputs is None:
        raise UserError(f"The module {type(target).__name__} needs example_inputs: a tensor, a tuple or a dict of them")
    if callable(example_inputs) and not isinstance(example_inputs, Mapping):
        draw = example_inputs
        call = call_of(draw())

        def make_inputs() -> tuple[tuple[Any, ...], dict[str, Any]]:
            drawn = call_of(draw())
            return drawn.args, drawn.kwargs

        return tasks.from_module(target, call.args, call.kwargs, folder=folder, make_inputs=make_inputs)
    call = call_of(example_inputs)
    return tasks.from_module(target, call.args, call.kwargs, folder=folder)


def words_for(target: Any) -> str:
    """The target as text, for the configuration and for folder names."""
    if isinstance(target, Task):
        return target.id
    if isinstance(target, str | Path):
        return str(target)
    return f"{type(target).__module__}:{type(target).__qualname__}"


def _is_module(target: Any) -> bool:
    from torch import nn

    return isinstance(target, nn.Module)
