"""From a candidate's source to an optimised module in the caller's process.

Knows how a candidate takes its weights (`from_reference`, else `load_state_dict`), and that its
file must stay on disk while it is used. Does not know when the module may answer. Importing a
candidate runs its code: only do this with a file that you would run.
"""

import atexit
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from pike.core.verdict.evaluation import Weights

CLASS = "ModelNew"


@dataclass(frozen=True, slots=True)
class FromSource:
    """Makes the optimised module from a copy of the original; can be pickled with its drop-in.

    Attributes:
        source: the candidate's file.
        weights: how it took its weights when the judge ran it.
        init_inputs: constructor arguments, None if they are not known.
    """

    source: str
    weights: Weights
    init_inputs: tuple[Any, ...] | None

    def __call__(self, original: nn.Module) -> nn.Module:
        """Make the optimised module with the original's weights, on the original's device.

        Raises:
            ValueError: the candidate cannot take over weights.
            Exception: any error of the candidate's code.
        """
        module = _imported(self.source)
        kind: Any = getattr(module, CLASS, None) or module.Model  # as some published files name it
        converts = hasattr(kind, "from_reference")
        made = kind.from_reference(original) if converts else self._constructed(kind, original)
        if not isinstance(made, nn.Module):
            raise TypeError(f"{CLASS} is no torch.nn.Module but a {type(made).__name__}")
        tensor = next(iter((*original.parameters(), *original.buffers())), None)
        return made if tensor is None else made.to(tensor.device)

    def _constructed(self, kind: Any, original: nn.Module) -> Any:
        if self.weights is Weights.SEEDED:
            raise ValueError("it was judged with weights of the same random seed and cannot take over others")
        if self.init_inputs is None:
            raise ValueError("the constructor arguments are not known; give init_inputs to pike.load")
        made = kind(*self.init_inputs)
        made.load_state_dict(original.state_dict(), strict=True)
        return made


def _imported(source: str) -> ModuleType:
    """Import the candidate, once in a process for the same source."""
    name = f"pike_candidate_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    known = sys.modules.get(name)
    if known is not None:
        return known
    # Triton and torch.compile read the source of functions again, so the file stays until the process ends.
    path = Path(tempfile.mkdtemp(prefix="pike-")) / f"{name}.py"
    atexit.register(_remove, path.parent, os.getpid())
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _remove(folder: Path, owner: int) -> None:
    """Remove a folder when its process ends, not when a forked process does."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
