"""`package.module:callable`: a user's function that returns a module and example inputs.

Knows how to import and call it, once, in this process, and which forms its result may have. Does
not know how the result is kept (`modules`).
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pike.core.errors import UserError
from pike.core.settings.merging import nearest
from pike.core.task import Task
from pike.tasks.loaders.own_files import cache_folder
from pike.tasks.modules import from_module


@dataclass(frozen=True, slots=True)
class ForwardCall:
    """The arguments of one forward call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def batch(self) -> int | None:
        """The length of its first tensor with axes, None without one."""
        from torch.utils._pytree import tree_leaves

        shapes = (getattr(value, "shape", ()) for value in tree_leaves((self.args, self.kwargs)))
        return next((int(shape[0]) for shape in shapes if shape), None)

    def resized(self, batch: int) -> "ForwardCall":
        """The call with `batch` rows in each tensor as long as the first one, repeated or cut."""
        import torch

        rows = self.batch

        def change(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not rows or value.shape[:1] != (rows,):
                return value
            return torch.cat([value] * -(-batch // rows))[:batch]

        return ForwardCall(*torch.utils._pytree.tree_map(change, (self.args, self.kwargs)))


def from_callable(text: str, *, folder: Path | None = None) -> Task:
    """The task that `package.module:callable` builds.

    Args:
        text: the dotted module, a colon, and a callable without arguments that returns
            `(module, example_inputs)`. Example inputs are a tuple or list of arguments, a dict of
            keyword arguments, or a pair `(args, kwargs)`. The current directory is importable.
        folder: where the module is kept; a folder of the user's cache by default.

    Raises:
        UserError: it cannot be imported, called, or returns something else.
    """
    module_name, _, attribute = text.partition(":")
    build = _attribute(_imported(module_name, text), attribute, text)
    try:
        built = build()
    except Exception as error:  # the user's own code may raise anything
        raise UserError(f"Task '{text}': calling it raised {type(error).__name__}: {error}") from error
    module, call = _understood(built, text)
    where = folder or cache_folder("modules")
    return from_module(module, call.args, call.kwargs, folder=where, name=attribute, id=text, origin=text)


def as_call(example_inputs: Any) -> ForwardCall | None:
    """Example inputs as a call, None if they have no known form."""
    if isinstance(example_inputs, Mapping):
        return ForwardCall((), dict(example_inputs))
    if not isinstance(example_inputs, tuple | list):
        return None
    if len(example_inputs) == 2:
        args, kwargs = example_inputs
        if isinstance(args, tuple | list) and isinstance(kwargs, Mapping):
            return ForwardCall(tuple(args), dict(kwargs))
    return ForwardCall(tuple(example_inputs), {})


def _imported(module_name: str, text: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise UserError(f"Task '{text}': module '{module_name}' cannot be imported: {error}") from error
    except Exception as error:  # importing runs the user's own code
        raise UserError(f"Task '{text}': importing it raised {type(error).__name__}: {error}") from error


def _attribute(module: Any, attribute: str, text: str) -> Callable[[], Any]:
    found = getattr(module, attribute, None)
    if found is None:
        public = [name for name in vars(module) if not name.startswith("_") and callable(getattr(module, name))]
        raise UserError(f"Task '{text}': the module has no '{attribute}'{nearest(attribute, public)}")
    if not callable(found):
        raise UserError(f"Task '{text}': '{attribute}' is a {type(found).__name__}, not a callable")
    return found  # type: ignore[no-any-return]


def _understood(built: Any, text: str) -> tuple[Any, ForwardCall]:
    import torch

    if isinstance(built, tuple | list) and len(built) == 2 and isinstance(built[0], torch.nn.Module):
        example = (built[1],) if isinstance(built[1], torch.Tensor) else built[1]
        call = as_call(example)
        if call is not None:
            return built[0], call
    raise UserError(
        f"Task '{text}' must return (module, example_inputs), with example_inputs a tuple, a list or a dict, "
        f"not {_shape(built)}"
    )


def _shape(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of ({', '.join(type(item).__name__ for item in value)})"
    return f"a {type(value).__name__}"
