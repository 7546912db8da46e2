"""Best files whose candidates say that they answered: they add 1000 to the original's output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from pike.core.step import Candidate
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Evaluation, Status, Timing, Weights
from pike.engine.output import best_file as bestfile
from pike.engine.output.best_file import Terms, literal
from pike.engine.output.signature import describe

MARK = 1000.0

CONVERTS = """
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.inner = model

    @classmethod
    def from_reference(cls, model):
        return cls(model)

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs) + 1000.0
"""

CONSTRUCTS = """
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)

    def forward(self, x):
        return self.linear(x) + 1000.0
"""

STATIC = CONVERTS.replace(
    "return self.inner(*args, **kwargs) + 1000.0",
    "out = self.inner(*args, **kwargs) + 1000.0\n"
    "        self.kept = getattr(self, 'kept', torch.empty_like(out))\n"
    "        return self.kept.copy_(out)",
)


class Small(nn.Module):
    """One layer, dropout, and settings that callers look at."""

    def __init__(self, inputs: int = 4, outputs: int = 3) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.register_buffer("scale", torch.ones(()))
        self.config = {"hidden": inputs}

    def forward(self, x: torch.Tensor, shift: float = 0.0, mask: torch.Tensor | None = None) -> torch.Tensor:
        out = self.linear(x) * self.scale + shift
        return out if mask is None else out * mask


class Linear(nn.Module):
    """What `CONSTRUCTS` rewrites."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def best_file(
    path: Path, source: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, **more: Any
) -> Path:
    """Write a best file that was judged on the call (`args`, `kwargs`)."""
    weights = more.pop("weights", Weights.FROM_REFERENCE)
    timing = Timing(10.0, 4.0, 2.5, (2.4, 2.6), 10, 100, 0.0)
    terms = Terms(
        task="demo/small",
        kind=TaskKind.MODULE,
        candidate="c7",
        call=describe(args, kwargs or {}) if args or kwargs else None,
        init_inputs=literal(more.pop("init_inputs", ())),
        dtypes=more.pop("dtypes", "float32"),
        device=more.pop("device", "cpu"),
        final=True,
        evaluation=Evaluation(Status.VALID, timing=timing, weights=weights, device="cpu (test)", torch_version="2"),
        pike_version="0.1.0",
        constants=more.pop("constants", ()),
    )
    task = Task("demo/small", "Small\nmodel", TaskKind.MODULE, "", "here")
    bestfile.write(path, task, Candidate("c7", source, author="me", note="adds\na mark"), terms)
    return path


def fast(out: torch.Tensor) -> bool:
    """Whether the candidate answered."""
    return bool((out > MARK / 2).all())
