"""Live modules as tasks: a module and its example inputs, saved for other processes.

Knows the payload of `core.task.TaskKind.MODULE` and the directories from which its classes are
imported. Does not know which process loads it.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import pickletools
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import cloudpickle

from pike.core.errors import UserError, saying
from pike.core.task import Task, TaskKind
from pike.tasks.describe import describe
from pike.tasks.files import task_files
from pike.tasks.loaders import own_files

if TYPE_CHECKING:
    import torch

MakeInputs = Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]
"""Draws a new (args, kwargs) pair from torch's global generator."""


def from_module(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    folder: Path,
    name: str | None = None,
    make_inputs: MakeInputs | None = None,
    id: str | None = None,
    origin: str | None = None,
) -> Task:
    """Save a live module as a task.

    Args:
        module: the module; a copy on the CPU is saved.
        args: positional arguments of one forward call.
        kwargs: keyword arguments of one forward call.
        folder: where the payload is written; created if needed.
        name: what people read, the class name by default.
        make_inputs: draws new inputs; without it, the judge draws values like the example's.
        id: the task's id, the class name in lower case by default.
        origin: where it came from, the class's full name by default.

    Raises:
        UserError: the module, its inputs or `make_inputs` cannot be pickled.
    """
    kind = type(module)
    payload = {
        "module": _copied(module),
        "args": tuple(_on_cpu(value) for value in args),
        "kwargs": {key: _on_cpu(value) for key, value in kwargs.items()},
        "make_inputs": make_inputs,
    }
    data = _pickled(payload, kind.__name__)
    path = _write(data, folder, kind.__name__)
    own, roots = _imports(data)
    return Task(
        id or _slug(name or kind.__name__),
        name or kind.__name__,
        TaskKind.MODULE,
        describe(module, args, kwargs),
        origin or f"{kind.__module__}.{kind.__qualname__}",
        str(path),
        roots,
        task_files([path, *own], roots),
    )


def _copied(module: torch.nn.Module) -> torch.nn.Module:
    """A copy on the CPU; weights on the meta device stay there, because the judge says so better."""
    try:
        copied = copied_module(module)
        copied._apply(lambda tensor: tensor if tensor.is_meta else tensor.cpu())  # type: ignore[no-untyped-call]
        return copied
    except Exception as error:  # copying runs the code of the user's objects
        leaves_out = "give the class that holds it a __getstate__ that leaves it out, or make it in forward()"
        cure = "make its tensors parameters or buffers, or detach() them" if "Tensor" in str(error) else leaves_out
        words = f"{type(error).__name__}: {error}"
        raise UserError(f"The module {type(module).__name__} cannot be copied ({words}); {cure}") from error


def copied_module(module: torch.nn.Module) -> torch.nn.Module:
    """A deep copy, also where the module keeps a computed tensor, as the old weight_norm does.

    Weights of recurrent layers lie in one piece again: cuDNN copies others at every call.
    """
    import torch

    kept = (value for part in module.modules() for value in vars(part).values() if isinstance(value, torch.Tensor))
    copied = copy.deepcopy(module, {id(tensor): tensor.detach().clone() for tensor in kept if not tensor.is_leaf})
    for part in copied.modules():
        if isinstance(part, torch.nn.RNNBase):
            part.flatten_parameters()
    return copied


def _on_cpu(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if type(value) in (tuple, list):
        return type(value)(_on_cpu(item) for item in value)
    if type(value) is dict:
        return {key: _on_cpu(item) for key, item in value.items()}
    return value


def _pickled(payload: dict[str, Any], what: str) -> bytes:
    buffer = io.BytesIO()
    try:
        with _by_value(payload["module"]):
            _Pickler(buffer).dump(payload)
    except Exception as error:  # pickling runs the __reduce__ of the user's objects
        scripted = "give the module that torch.jit.script or torch.jit.trace was called on"
        cure = scripted if "__torch__" in str(error) else "make its objects picklable"
        words = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise UserError(f"The module {what} cannot be saved for the judge ({words}); {cure}") from error
    return buffer.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles parametrized modules too, which PyTorch refuses."""

    def reducer_override(self, value: Any) -> Any:
        """A parametrized module as its own class with its attributes, and how it is put together."""
        from torch import nn
        from torch.nn.utils import parametrize

        def restore(module: Any, attributes: dict[str, Any]) -> None:  # a local function is pickled whole
            vars(module).update(attributes)
            parametrize._inject_new_class(module)
            for name in module.parametrizations:
                parametrize._inject_property(module, name)

        if not isinstance(value, nn.Module) or not parametrize.is_parametrized(value):
            return super().reducer_override(value)
        return (lambda kind: kind.__new__(kind)), (type(value).__base__,), dict(vars(value)), None, None, restore


def _write(data: bytes, folder: Path, what: str) -> Path:
    """Write atomically, under a name that depends on the content."""
    digest = hashlib.sha256(data).hexdigest()[:16]
    path = (folder / f"{_slug(what)}-{digest}.pkl").resolve()
    with saying(UserError, f"The module cannot be saved in {folder}"):
        own_files.write(path, data)
    return path


@contextlib.contextmanager
def _by_value(module: torch.nn.Module) -> Iterator[None]:
    """Pickle classes by value if their module cannot be imported again by name."""
    lost = [home for home in _homes(module) if _root(home) is None and home.__name__ != "__main__"]
    for home in lost:
        cloudpickle.register_pickle_by_value(home)
    try:
        yield
    finally:
        for home in lost:
            cloudpickle.unregister_pickle_by_value(home)


def _imports(data: bytes) -> tuple[list[Path], tuple[str, ...]]:
    """The user's own files that a pickle names, and the directories from which they and theirs are imported.

    Every string in the pickle counts: functions that are saved whole also name what they import later.
    """
    words = dict.fromkeys(word for _, word, _ in pickletools.genops(data) if isinstance(word, str))
    homes = [home for word in words if (home := sys.modules.get(word)) and not _installed(home)]
    found = {Path(str(home.__file__)): root for home in homes if (root := _root(home))}
    searched = (Path(place).resolve() for place in sys.path)
    folders = {*found.values(), *(str(place) for place in searched if place.is_dir() and not _is_installed(place))}
    used = (Path(file.path) for file in task_files(found, folders) if file.digest)
    around = ([folder for folder in folders if path.is_relative_to(folder)] for path in used)
    roots = (*found.values(), *sorted(max(places, key=len) for places in around if places))
    return list(found), tuple(dict.fromkeys(roots))


def _homes(module: torch.nn.Module) -> list[ModuleType]:
    """The Python modules of the tree's classes that are not installed packages."""
    names = dict.fromkeys(type(child).__module__ for child in module.modules())
    found = (sys.modules.get(name) for name in names)
    return [home for home in found if home is not None and not _installed(home)]


def _installed(home: ModuleType) -> bool:
    file = getattr(home, "__file__", None)
    return home.__name__ != "__main__" if file is None else _is_installed(Path(file).resolve())


def _is_installed(path: Path) -> bool:
    """Whether a file or folder belongs to Python, to an installed package, or to PIKE."""
    import torch

    places = {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    homes = (Path(torch.__file__).parents[1], Path(__file__).parents[2], *map(Path, places))
    return path.parent.name.endswith("-packages") or any(path.is_relative_to(place.resolve()) for place in homes)


def _root(home: ModuleType) -> str | None:
    """The directory from which `home` can be imported by its name, None if there is none."""
    file = getattr(home, "__file__", None)
    if file is None or home.__name__ == "__main__":
        return None
    path = Path(file).resolve()
    parts = home.__name__.split(".")
    tail = path.parent if path.name == "__init__.py" else path.with_suffix("")
    if list(tail.parts[-len(parts) :]) != parts:
        return None
    return str(tail.parents[len(parts) - 1])


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-") or "module"
