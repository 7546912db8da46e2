"""The inputs and outputs of a task, found without computing.

Runs a task's code on torch's meta device, where tensors have shapes and no memory: a model of
billions of parameters takes seconds. Executes the task's code, which is the user's own and trusted
(`outline_process` does so in another process). Does not know suites.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any


@dataclass(frozen=True, slots=True)
class TensorOutline:
    """One input or output.

    Attributes:
        text: in words, for example `float32[2, 3, 224, 224]`, or a value that is no tensor.
        dtype: of a tensor, without `torch.`; empty for other values.
        shape: of a tensor.
        name: of a keyword argument; empty for others.
    """

    text: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Outline:
    """The inputs, outputs and size of a task.

    Attributes:
        inputs: of one forward call, None if unknown.
        outputs: of that call, None if unknown.
        parameters: how many numbers, None if unknown.
        parameter_tensors: how many tensors hold them, None if unknown.
        problems: why something is unknown.
    """

    inputs: tuple[TensorOutline, ...] | None = None
    outputs: tuple[TensorOutline, ...] | None = None
    parameters: int | None = None
    parameter_tensors: int | None = None
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class _Finding:
    """The problems so far."""

    problems: list[str] = field(default_factory=list)

    def trying(self, what: str, act: Callable[[], Any]) -> Any:
        """Call `act`; if the task's own code raises, note the problem and return None."""
        try:
            return act()
        except Exception as error:  # the task's own code may raise anything
            lines = str(error).strip().splitlines() or [""]
            self.problems.append(f"{what}: {type(error).__name__}: {lines[0][:200]}")
            return None


def outline(source: str, origin: str, import_paths: tuple[str, ...] = ()) -> Outline:
    """The outline of the task in `source`; errors in its code become problems.

    Args:
        source: a KernelBench-format text.
        origin: where it came from, for tracebacks.
        import_paths: folders put on `sys.path` before it is executed.
    """
    found = _Finding()
    sys.path[:0] = [path for path in import_paths if path not in sys.path]
    module = found.trying("the file", lambda: _executed(source, origin))
    if module is None:
        return Outline(problems=tuple(found.problems))
    model = _model(module, found)
    arguments = _arguments(module, found)
    outputs = None
    if model is not None and arguments is not None:
        outputs = found.trying("outputs", lambda: _returned(model, arguments))
    sizes = [parameter.numel() for parameter in model.parameters()] if model is not None else None
    return Outline(
        None if arguments is None else tuple(_given(arguments)),
        outputs,
        None if sizes is None else sum(sizes),
        None if sizes is None else len(sizes),
        tuple(found.problems),
    )


def _executed(source: str, origin: str) -> ModuleType:
    module = ModuleType("pike_outlined_task")
    module.__file__ = origin
    sys.modules[module.__name__] = module
    exec(compile(source, origin, "exec"), module.__dict__)
    return module


def _model(module: ModuleType, found: _Finding) -> Any:
    """The model on the meta device, made on the CPU if its constructor needs values."""
    given = found.trying("get_init_inputs()", lambda: list(module.get_init_inputs()))
    if given is None:
        return None
    for on in (_meta, nullcontext):
        made = _constructed(module, given, on)
        if not isinstance(made, Exception):
            return made
    found.problems.append(f"Model(*get_init_inputs()): {type(made).__name__}: {str(made)[:200]}")
    return None


def _constructed(module: ModuleType, given: list[Any], on: Callable[[], AbstractContextManager[Any]]) -> Any:
    try:
        with on():
            return module.Model(*given).eval().to("meta")
    except Exception as error:  # the task's own code may raise anything
        return error


def _arguments(module: ModuleType, found: _Finding) -> Any:
    """The arguments of a call, without their values."""

    def draw() -> Any:
        with _meta():
            drawn = module.get_inputs()
        return _without_values(dict(drawn) if isinstance(drawn, Mapping) else list(drawn))

    return found.trying("get_inputs()", draw)


def _returned(model: Any, arguments: Any) -> tuple[TensorOutline, ...]:
    """The outputs of a call; if it asks for values, both assumptions must give the same."""
    from pike.tasks.assumed_values import AssumedValues

    try:
        return tuple(_slots(_called(model, arguments)))
    except Exception:
        found = []
        for all_alike in (False, True):
            with suppress(Exception), AssumedValues(all_alike):
                found.append(tuple(_slots(_called(model, arguments))))
        if len(found) < 2 or found[0] != found[1]:
            raise
        return found[0]


def _called(model: Any, arguments: Any) -> Any:
    import torch

    with torch.no_grad(), _meta():
        return model(**arguments) if isinstance(arguments, dict) else model(*arguments)


def _without_values(value: Any) -> Any:
    import torch
    from torch.utils import _pytree as pytree

    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), value)


def _given(arguments: Any) -> Iterator[TensorOutline]:
    if not isinstance(arguments, dict):
        yield from (_slot(value) for value in arguments)
        return
    for name, value in arguments.items():
        slot = _slot(value)
        yield TensorOutline(f"{name}={slot.text}", slot.dtype, slot.shape, name)


def _slots(value: Any) -> Iterator[TensorOutline]:
    """Every tensor of an output, depth first."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from _slots(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _slots(item)
    else:
        yield _slot(value)


def _slot(value: Any) -> TensorOutline:
    import torch

    from pike.tasks.describe import value_text

    if isinstance(value, torch.Tensor):
        return TensorOutline(value_text(value), str(value.dtype).removeprefix("torch."), tuple(value.shape))
    return TensorOutline(value_text(value))


def _meta() -> AbstractContextManager[Any]:
    import torch

    return torch.device("meta")
