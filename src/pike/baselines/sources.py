"""The opponents that a candidate has to beat, each as a candidate file like any other.

Knows how to write eager PyTorch and `torch.compile` as files with a class `ModelNew`, for both shapes of a task. Does
not know how they are judged (`measure`), and gives them no privilege: a baseline passes the same judge.
"""

from __future__ import annotations

from dataclasses import dataclass

from pike.core.task import Task, TaskKind


@dataclass(frozen=True, slots=True)
class Baseline:
    """One opponent.

    Attributes:
        name: short and stable, for tables: `eager`, `compile`, `compile:max-autotune`.
        label: what people read.
        mode: the `mode` of `torch.compile` (its documentation lists them), None for eager execution.
        needs_cuda: True where the mode does something of its own only on a GPU.
    """

    name: str
    label: str
    mode: str | None = None
    needs_cuda: bool = False


EAGER = Baseline("eager", "eager PyTorch")
COMPILE = Baseline("compile", "torch.compile", "default")
BASELINES: tuple[Baseline, ...] = (
    EAGER,
    COMPILE,
    Baseline("compile:reduce-overhead", "torch.compile, reduce-overhead", "reduce-overhead", needs_cuda=True),
    Baseline("compile:max-autotune", "torch.compile, max-autotune", "max-autotune"),
    Baseline(
        "compile:max-autotune-no-cudagraphs",
        "torch.compile, max-autotune without CUDA graphs",
        "max-autotune-no-cudagraphs",
        needs_cuda=True,
    ),
)
"""Every opponent, the plain ones first."""


def for_device(is_cuda: bool) -> tuple[Baseline, ...]:
    """The opponents that are distinct on a device: on a CPU the CUDA-graph modes equal their plain forms."""
    return tuple(baseline for baseline in BASELINES if is_cuda or not baseline.needs_cuda)


_SOURCE_TAIL = '''

class ModelNew(Model):
    """{label}."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs){compile}
'''

_MODULE_FILE = '''"""{label} of the live module."""

import torch


class ModelNew(torch.nn.Module):
    """{label}."""

    def __init__(self, model):
        super().__init__()
        self.model = model{compile}

    @classmethod
    def from_reference(cls, model):
        return cls(model)

    def forward(self, *args, **kwargs):
        return self.model(*args, **kwargs)
'''


def source(baseline: Baseline, task: Task) -> str:
    """The candidate file that plays `baseline` on `task`.

    For a `SOURCE` task it is the task's own file with a subclass of `Model`, so that the weights arrive by
    `load_state_dict`; for a `MODULE` task it wraps the module that `from_reference` is given.
    """
    if task.kind is TaskKind.SOURCE:
        call = "" if baseline.mode is None else f"\n        self.compile(mode={baseline.mode!r})"
        return task.source.rstrip() + "\n" + _SOURCE_TAIL.format(label=baseline.label, compile=call)
    call = "" if baseline.mode is None else f"\n        self.model.compile(mode={baseline.mode!r})"
    return _MODULE_FILE.format(label=baseline.label, compile=call)
