"""The reference model of a task: constructed, with a way to draw inputs.

Executes the task's code, which is trusted. A candidate never shares a process with it.
"""

import pickle
import random
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from pike.core.errors import UserError
from pike.core.task import LeastWork, Task, TaskKind
from pike.judge.child.memory.layout import not_dense, put_together, take_apart
from pike.judge.child.skip_init import SkipInit
from pike.judge.reference.whole_numbers import is_falling, is_rising, other_whole
from pike.judge.refusal import lacks_device_memory

WEIGHTS_SEED = 42
"""Seeds torch before a SOURCE task's `Model` is constructed, as KernelBench does."""
_IDS = (torch.int32, torch.int64)
"""What offsets and lengths are."""
_CPU = torch.device("cpu")
_Made = TypeVar("_Made")


class _Unlisted(Exception):
    """A function of the task returns no list of arguments."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reference:
    """A constructed reference.

    Attributes:
        model: in eval mode, on the CPU.
        init_inputs: the constructor's arguments; empty for a live module.
        draw: new inputs from a seed, made on the device where the task allows it. The same seed
            gives the same inputs on the same device type.
        draw_held_out: the same for the other shapes that the task declares; none by default.
        least: the least work of a call, as the task declares it.
        skip_init: whether the task sets the weights after the constructor, which then draws none.
    """

    model: nn.Module
    init_inputs: tuple[Any, ...]
    draw: Callable[[int], Inputs]
    draw_held_out: Callable[[int], tuple[Inputs, ...]] = lambda _: ()
    least: LeastWork = field(default_factory=LeastWork)
    skip_init: bool = False


def load(task: Task, device: torch.device = _CPU) -> Reference:
    """Construct the reference of a task.

    Args:
        task: the problem.
        device: where a task sets its own weights and draws inputs: a CPU takes minutes for billions
            of numbers. The same device gives the same weights.

    Raises:
        UserError: the task's own code fails; the message names the part that failed.
        torch.OutOfMemoryError: the device has no memory for the weights.
    """
    sys.path[:0] = [path for path in task.import_paths if path not in sys.path]
    loaded = (_from_payload if task.kind is TaskKind.MODULE else _from_source)(task, device)
    for tensor in (*loaded.model.parameters(), *loaded.model.buffers()):
        if is_lazy(tensor):
            raise UserError(f"Task '{task.id}': its model makes weights in its first call; call it once before")
        if tensor.is_meta:
            raise UserError(
                f"Task '{task.id}': weights of its model are on the meta device and have no values; make them with "
                "to_empty(device='cpu') and load or initialise them"
            )
    return loaded


def _made_on(device: torch.device) -> AbstractContextManager[object]:
    """A context in which factory functions without a device argument make tensors on a GPU."""
    return nullcontext() if device.type == "cpu" else torch.device(device)


def _from_source(task: Task, device: torch.device) -> Reference:
    module = ModuleType(f"pike_task_{abs(hash(task.id))}")
    module.__file__ = task.origin
    sys.modules[module.__name__] = module
    _trying(task, "the file", lambda: exec(compile(task.source, task.origin, "exec"), module.__dict__))
    for name in ("Model", "get_inputs", "get_init_inputs"):
        if not hasattr(module, name):
            raise UserError(f"Task '{task.id}' does not define {name}; a KernelBench-format file needs it")
    init_inputs: tuple[Any, ...] = _trying(task, "get_init_inputs()", lambda: _as_init(module.get_init_inputs()))
    has_weights_later = hasattr(module, "initialise")

    def seed_weights() -> None:
        # On a CPU nothing else is seeded, not even for a later day: the caller may be a notebook.
        seed = torch.manual_seed if device.type == "cuda" else torch.default_generator.manual_seed
        seed(WEIGHTS_SEED)

    def construct() -> nn.Module:
        seed_weights()
        with SkipInit() if has_weights_later else nullcontext():
            model: nn.Module = module.Model(*init_inputs)
        return model.eval()

    def initialise(model: nn.Module) -> None:
        seed_weights()
        with torch.no_grad(), _made_on(device):
            module.initialise(model.to(device))
        model.eval().cpu()

    def draw(seed: int) -> Inputs:
        _seed_everything(seed)
        with _made_on(device):
            return _trying(task, "get_inputs()", lambda: _as_inputs(module.get_inputs()))

    def draw_held_out(seed: int) -> tuple[Inputs, ...]:
        if not hasattr(module, "get_held_out_inputs"):
            return ()
        _seed_everything(seed)
        with _made_on(device):
            return _trying(task, "get_held_out_inputs()", lambda: tuple(map(_as_inputs, module.get_held_out_inputs())))

    model = _trying(task, "Model(*get_init_inputs())", construct)
    if has_weights_later:
        _trying(task, "initialise(model)", lambda: initialise(model))
    return Reference(model, init_inputs, draw, draw_held_out, _declared(task, module), has_weights_later)


def _declared(task: Task, module: ModuleType) -> LeastWork:
    found = {name: getattr(module, name, 0) for name in ("LEAST_BYTES", "LEAST_OPERATIONS")}
    for name, value in found.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise UserError(f"Task '{task.id}': {name} is {value!r}; declare a whole number that is not negative")
    return LeastWork(*found.values())


def _as_init(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Mapping | torch.Tensor):
        raise _Unlisted(f"returns a {type(value).__name__}; return a list of the constructor's arguments")
    return tuple(value)


def _as_inputs(value: Any) -> Inputs:
    if isinstance(value, torch.Tensor):
        raise _Unlisted("returns a bare tensor; return a list of arguments or a dict of keyword arguments")
    return Inputs((), dict(value)) if isinstance(value, Mapping) else Inputs(tuple(value), {})


def _as_pair(args: Any, kwargs: Any) -> Inputs:
    return Inputs(tuple(args), dict(kwargs))


def _from_payload(task: Task, device: torch.device) -> Reference:
    assert task.payload_path is not None
    try:
        with open(task.payload_path, "rb") as file:
            payload = pickle.load(file)
    except (OSError, pickle.UnpicklingError, ImportError, AttributeError, EOFError) as error:
        raise UserError(f"Task '{task.id}': its saved module {task.payload_path} cannot be loaded: {error}") from error
    make_inputs = payload["make_inputs"]
    example = Inputs(tuple(payload["args"]), dict(payload["kwargs"]))
    require_dense(task, example)

    def draw(seed: int) -> Inputs:
        _seed_everything(seed)
        if make_inputs is not None:
            with _made_on(device):
                return _trying(task, "example_inputs()", lambda: _as_pair(*make_inputs()))
        return _trying(task, "drawing like the example (give a function as example_inputs)", lambda: like(example))

    return Reference(payload["module"].eval(), (), draw)


def require_dense(task: Task, inputs: Inputs) -> None:
    """Refuse inputs that no shared region can hold."""
    if odd := next(filter(None, map(not_dense, take_apart((inputs.args, inputs.kwargs))[0])), ""):
        raise UserError(f"Task '{task.id}': an input is {odd}; give dense tensors and build it in forward()")


def like(example: Inputs) -> Inputs:
    """New inputs whose elements are drawn, with replacement, from an example's own.

    Constant tensors (masks of ones) stay constant, indices stay valid, and offsets and lengths in
    order stay so. Floating-point values are also scaled by up to 1 %, so that no two draws are equal.
    """
    tensors, structure = take_apart((example.args, example.kwargs))
    return Inputs(*put_together(structure, [_resample(tensor) for tensor in tensors]))


def _seed_everything(seed: int) -> None:
    """Seed every generator that a task may draw from.

    `torch.manual_seed` also records the stack for each unused kind of device, which is slow.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _resample(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype in _IDS and (is_rising(tensor) or is_falling(tensor)):
        return other_whole(tensor.detach().cpu(), torch.default_generator)
    flat = tensor.detach().cpu().reshape(-1)
    if flat.numel() == 0 or bool((flat == flat[0]).all()):
        return tensor.detach().cpu().clone()
    drawn = flat[torch.randint(flat.numel(), flat.shape)]
    if drawn.is_floating_point():
        drawn = drawn * (1 + 0.01 * (torch.rand(drawn.shape, dtype=torch.float32) - 0.5)).to(drawn.dtype)
    return drawn.reshape(tensor.shape)


def _trying(task: Task, what: str, act: Callable[[], _Made]) -> _Made:
    try:
        return act()
    except _Unlisted as error:
        raise UserError(f"Task '{task.id}': {what} {error}") from error
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        words = f"Task '{task.id}': {what} raised {type(error).__name__}: {error}"
        if lacks_device_memory(words):  # not the task's fault if other judges hold the memory
            raise torch.OutOfMemoryError(words) from error
        raise UserError(words) from error
