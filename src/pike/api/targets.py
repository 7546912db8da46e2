"""What can be optimised, and how it becomes a task.

Knows how people name a target and write example inputs. Does not find tasks (`tasks`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union, cast

from pike import tasks
from pike.core.errors import UserError
from pike.core.task import Task
from pike.tasks.callables import ForwardCall, as_call

if TYPE_CHECKING:
    import torch
    from torch import nn

Target: TypeAlias = Union["nn.Module", Task, str, Path]
"""What can be optimised: a module, a task, a KernelBench-format file, `SUITE/ID`, or
`package.module:callable`."""
Inputs: TypeAlias = Union["torch.Tensor", Sequence[Any], Mapping[str, Any]]
"""The inputs of one call: a tensor, a sequence of arguments, a mapping of keyword arguments, or an
(args, kwargs) pair."""
ExampleInputs: TypeAlias = Inputs | Callable[[], Inputs]
"""The inputs of one call, or a function without arguments that draws some."""

_Drawn = TypeVar("_Drawn")

RUNS = Path("runs")
"""The default parent of new runs."""


def call_of(inputs: Inputs) -> ForwardCall:
    """Read inputs as one call."""
    return as_call(inputs) or ForwardCall((inputs,), {})


def task_of(target: Target, example_inputs: ExampleInputs | None, folder: Path) -> Task:
    """Make the task that `target` names.

    Args:
        target: what is to be optimised.
        example_inputs: the inputs of a live module.
        folder: where a live module is kept; created only for one.

    Raises:
        UserError: nothing has that name, a live module comes without inputs, or drawing them fails.
    """
    if isinstance(target, Task):
        return target
    if isinstance(target, str | Path):
        return tasks.resolve(str(target), folder=folder)
    from torch import nn

    if not isinstance(target, nn.Module):
        raise UserError(
            f"Cannot optimise a {type(target).__name__}: give a torch.nn.Module, a file, SUITE/ID or "
            "package.module:callable"
        )
    target = _trusted(target)
    if example_inputs is None:
        raise UserError(f"The module {type(target).__name__} needs example_inputs: a tensor, a tuple or a dict of them")
    if not callable(example_inputs) or isinstance(example_inputs, Mapping):
        call = call_of(example_inputs)
        return tasks.from_module(target, call.args, call.kwargs, folder=folder)
    draw: Callable[[], Inputs] = example_inputs

    def make_inputs() -> tuple[tuple[Any, ...], dict[str, Any]]:
        drawn = call_of(draw())
        return drawn.args, drawn.kwargs

    args, kwargs = _trying(make_inputs)
    return tasks.from_module(target, args, kwargs, folder=folder, make_inputs=make_inputs)


def _trying(draw: Callable[[], _Drawn]) -> _Drawn:
    try:
        return draw()
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise UserError(f"The function given as example_inputs raised {type(error).__name__}: {error}") from error


def _trusted(module: nn.Module) -> nn.Module:
    """The original of a drop-in: a judge takes nothing that a search wrote for the truth."""
    from pike.api.dropin import DropIn

    module = module.original if isinstance(module, DropIn) else module
    inside = [name or "itself" for name, child in module.named_modules() if isinstance(child, DropIn)]
    if inside:
        raise UserError(f"The module holds a drop-in at '{inside[0]}': put the drop-in's .original in its place")
    return module


def tasks_at(
    target: Target, example_inputs: ExampleInputs | None, sizes: Collection[int]
) -> dict[int, Callable[[Path], Task]]:
    """The task of a live module at other batch sizes than the example's, each made in a folder.

    Raises:
        UserError: there is no list of sizes, a size is none, the target is no live module, or its inputs have no batch.
    """
    if not isinstance(sizes, Collection):
        raise UserError(f"dynamic_batch is {sizes!r}: give whole numbers from 1 in a list, for example [1, 8, 32]")
    for size in sizes:
        if not isinstance(size, int) or size < 1:
            raise UserError(f"dynamic_batch has {size!r}: give whole numbers from 1, for example [1, 8, 32]")
    if not sizes:
        return {}
    if isinstance(target, str | Path | Task) or example_inputs is None:
        raise UserError("dynamic_batch needs a live torch.nn.Module: load the model and give it with example_inputs")
    draw = example_inputs if callable(example_inputs) and not isinstance(example_inputs, Mapping) else None
    fixed = call_of(_trying(draw) if draw else cast(Inputs, example_inputs))
    if not fixed.batch:
        raise UserError("The example inputs have no batch: give a tensor whose first axis it is, or no dynamic_batch")

    def task_at(size: int, folder: Path) -> Task:
        def drawn() -> Inputs:
            call = (call_of(draw()) if draw else fixed).resized(size)
            return call.args, call.kwargs

        return task_of(target, drawn if draw else drawn(), folder.resolve())

    return {size: partial(task_at, size) for size in sorted({*sizes} - {fixed.batch})}


@contextmanager
def task_for_now(target: Target, example_inputs: ExampleInputs | None) -> Iterator[Task]:
    """Make the task of a verb that keeps nothing; a live module is on disk until the context ends.

    Raises:
        UserError: as `task_of`.
    """
    with TemporaryDirectory(prefix="pike-") as folder:
        yield task_of(target, example_inputs, Path(folder))


@contextmanager
def kept_if_begun(task: Task, folder: Path) -> Iterator[None]:
    """A context that begins a run in `folder`; if it fails to, what `task_of` wrote there goes."""
    try:
        yield
    except BaseException:
        written = Path(task.payload_path or "/")
        if written.parent == folder.resolve() and not (folder / "journal.sqlite").exists():
            written.unlink(missing_ok=True)
            with suppress(OSError):  # it holds something else
                folder.rmdir()
        raise


def words_for(target: Target) -> str:
    """Name the target for the configuration and for folders."""
    if isinstance(target, Task):
        return target.id
    if isinstance(target, str | Path):
        return str(target)
    return f"{type(target).__module__}:{type(target).__qualname__}"


def new_folder(words: str, root: Path = RUNS) -> Path:
    """Choose a new folder under `root`, named by a target's words and the time."""
    named = words.replace(":small", "-small")
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in named.rpartition(":")[2].removesuffix(".py"))
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = root / f"{stem.strip('-')[-60:] or 'run'}-{stamp}"
    count = 1
    while folder.exists():
        count += 1
        folder = folder.with_name(f"{folder.name.partition('~')[0]}~{count}")
    return folder
