"""Everything that a module's answers depend on, found by walking through its attributes.

Knows modules, tensors, containers and plain objects, hidden ones included; functions and objects of
machine code by identity only. Does not know when to look (`watch`).
"""

import hashlib
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from pike.engine.output.signature import digest

MOST_OBJECTS = 100_000
"""A module that leads to more objects than this holds a data set or the whole program."""

_REGISTERED = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_OF_EVERY_MODULE = frozenset(vars(nn.Module())) | {"_is_torch_compile", "__overloads__"}
"""The mode is looked at apart; hooks of gradients and state dictionaries change no answer, nor does
what torch.compile and torch.jit.script write on modules for themselves."""
_MOST_PARTS = 32
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_CONTAINERS = (dict, OrderedDict, list, tuple, deque)
_CHANGING = (list, set, deque)
_OPAQUE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_NOT_ENTERED = frozenset(
    {"asyncio", "concurrent", "ctypes", "io", "logging", "multiprocessing", "pike", "threading", "weakref"}
)
"""Packages whose objects lead to the whole program, or stand for themselves."""


class Unwatchable(ValueError):
    """Changes of a module cannot be seen before each call; the message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """Stands for an object that equals itself only, and keeps it alive while it is compared."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value


@dataclass(frozen=True, slots=True)
class ModuleState:
    """What a walk through a module came across.

    Attributes:
        form: everything by path; weights (what a state dictionary holds) only with their shapes.
        modules: the module and its submodules by identity, without those hidden in lists.
        classes: the classes of all modules.
        tensors: all tensors.
        arrays: the memory of numpy arrays.
        dicts: filled dictionaries, those of attributes included.
        empty: dictionaries of hooks, weights and modules that hold nothing yet.
        others: lists, sets and objects with slots.
    """

    form: dict[str, Any] = field(default_factory=dict)
    modules: dict[int, nn.Module] = field(default_factory=dict)
    classes: dict[type, None] = field(default_factory=dict)
    tensors: list[torch.Tensor] = field(default_factory=list)
    arrays: list[torch.Tensor] = field(default_factory=list)
    dicts: list[dict[Any, Any]] = field(default_factory=list)
    empty: list[dict[Any, Any]] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)


def walk(module: nn.Module) -> ModuleState:
    """Find all that the answers of `module` depend on.

    Raises:
        Unwatchable: there is too much to look at.
    """
    found = ModuleState(modules={id(child): child for child in module.modules()})
    first: dict[int, str] = {}
    weights = {
        id(tensor)
        for child in found.modules.values()
        for name, tensor in (*child._parameters.items(), *child._buffers.items())
        if name not in child._non_persistent_buffers_set
    }
    ahead: list[tuple[str, Any]] = [("", module)]
    while ahead:
        path, value = ahead.pop()
        while path in found.form:  # an attribute and an item of one name
            path += "'"
        if type(value) in _PLAIN:
            found.form[path] = type(value), repr(value)
        elif id(value) in first and not _is_value(value):
            found.form[path] = "also", first[id(value)]
        else:
            if type(value) is not tuple:  # equal tuples are one object or two as Python likes
                first[id(value)] = path
            found.form[path] = _portrait(value, id(value) in weights)
            ahead += [(path + name, part) for name, part in _noted(value, found)]
        if len(found.form) > MOST_OBJECTS:
            raise Unwatchable("it leads to too many other objects to look at them before each call")
    return found


def difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The path of something that changed, empty if nothing did."""
    paths = (path for path in {**before, **now} if before.get(path) != now.get(path))
    return next((path.lstrip(" .") or "its class" for path in paths), "")


def parts(value: Any) -> Iterable[Any]:
    """The objects in a list, a queue or a set, and in the slots of another object."""
    return value if isinstance(value, _CHANGING) else [getattr(value, name, None) for name in _slots(value)]


def _portrait(value: Any, followed: bool) -> Any:
    """What of an object must stay as it is, without its parts."""
    if isinstance(value, torch.Tensor):
        return type(value), tuple(value.shape), "" if followed else _content(value)
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, hashlib.sha256(value.tobytes()).hexdigest()
    if isinstance(value, nn.Module) or type(value) in _CONTAINERS:
        return Same(type(value))
    if type(value) in (set, frozenset):
        return type(value), tuple(sorted(map(repr, value)))
    return Same(value)


def _is_value(value: Any, depth: int = 4) -> bool:
    """Whether a container is small and plain: torch.export puts an equal one in the place of such an attribute."""
    if type(value) not in _CONTAINERS or len(value) > _MOST_PARTS or not depth:
        return False
    held = value.values() if isinstance(value, dict) else value
    return all(type(part) in _PLAIN or _is_value(part, depth - 1) for part in held)


def _content(tensor: torch.Tensor) -> str:
    try:
        return digest(tensor)
    except (RuntimeError, NotImplementedError, TypeError):  # it has no bytes of its own, or is on no device
        return f"{type(tensor).__name__} {id(tensor)}"


def _noted(value: Any, found: ModuleState) -> Iterable[tuple[str, Any]]:
    """Note an object for later looks, and name its parts."""
    if isinstance(value, torch.Tensor):
        found.tensors.append(value)
    elif isinstance(value, np.ndarray) and value.flags.writeable:
        with suppress(TypeError, ValueError):  # of text, or backwards
            found.arrays.append(torch.from_numpy(value))
    elif isinstance(value, nn.Module):
        return _noted_module(value, found)
    elif not isinstance(value, _OPAQUE) and type(value).__module__.partition(".")[0] not in _NOT_ENTERED:
        return _noted_object(value, found)
    return ()


def _noted_object(value: Any, found: ModuleState) -> Iterator[tuple[str, Any]]:
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        found.dicts.append(own)
        yield from ((f".{name}", part) for name, part in own.items())
    if isinstance(value, dict):
        found.dicts.append(value)
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    if isinstance(value, _CHANGING) or _slots(value):
        found.others.append(value)
    if isinstance(value, list | tuple | deque):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    yield from ((f".{name}", getattr(value, name, None)) for name in _slots(value))


def _noted_module(module: nn.Module, found: ModuleState) -> Iterator[tuple[str, Any]]:
    own = vars(module)
    found.dicts.append(own)
    if id(module) not in found.modules:
        yield ".training", module.training  # .eval() does not reach it
    yield from ((f".{name}", part) for name, part in own.items() if name not in _OF_EVERY_MODULE)
    for name in (*_REGISTERED, *_HOOKS):
        slots = own[name]
        (found.dicts if slots else found.empty).append(slots)
        before = "." if name in _REGISTERED else f".{name.strip('_')} "
        yield from ((f"{before}{key}", part) for key, part in slots.items())
    for kind in type(module).__mro__:
        if kind not in found.classes and kind not in (nn.Module, object):
            found.classes[kind] = None
            named = ((name, part) for name, part in vars(kind).items() if name == "__call__" or name[:2] != "__")
            yield from ((f" {kind.__name__}.{name}", part) for name, part in named)


def _slots(value: Any) -> list[str]:
    named = (vars(kind).get("__slots__", ()) for kind in type(value).__mro__)
    return [name for names in named for name in ([names] if isinstance(names, str) else names) if name[:2] != "__"]
