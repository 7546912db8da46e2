"""A baseline as a candidate file like any other.

Knows how to put eager PyTorch, `torch.compile`, a CUDA graph and TensorRT into a class `ModelNew`, for both shapes of a
task, and what a competent user adds for each declared precision. Does not know how the file is judged (`measure`).

Without a change of arithmetic, eager and `torch.compile` are what a user types, to the letter. Everything else takes
effect at the first call, when weights are loaded and inputs are there to look at.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pike.baselines import ways
from pike.baselines.sources import Baseline, Way
from pike.core.evaluation import Precision
from pike.core.task import Task, TaskKind

_TF32 = """
torch.set_float32_matmul_precision("high")
torch.backends.cudnn.allow_tf32 = True
"""

_SUBCLASS = '''

class ModelNew(Model):
    """{label}."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs){compile}
'''

_WRAPPER = '''

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

_LATE_SUBCLASS = '''

class ModelNew(Model):
    """{label}."""

    def forward(self, *args, **kwargs):
        model, call = self, super().forward
{steps}
        self.forward = call
        return call(*args, **kwargs)
'''

_LATE_WRAPPER = '''

class ModelNew(torch.nn.Module):
    """{label}."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    @classmethod
    def from_reference(cls, model):
        return cls(model)

    def forward(self, *args, **kwargs):
        model, call = self.model, self.model.forward
{steps}
        self.forward = call
        return call(*args, **kwargs)
'''


def source(baseline: Baseline, task: Task, precision: Precision = Precision.SAME) -> str:
    """The candidate file that plays `baseline` on `task`.

    For a `SOURCE` task it is the task's own file with a subclass of `Model`, so that the weights arrive by
    `load_state_dict`; for a `MODULE` task it wraps the module that `from_reference` is given.

    Args:
        baseline: who.
        task: the problem.
        precision: what a user may do to it: nothing (`same`), torch's switches for TensorFloat-32 (`tf32`), or weights
            and inputs in 16 bits (`half`).
    """
    own = task.kind is TaskKind.SOURCE
    plain = precision is not Precision.HALF and baseline.way in (Way.EAGER, Way.COMPILE)
    parts = [task.source.rstrip() + "\n"] if own else []
    if not (own and plain and precision is Precision.SAME):
        parts.append("\n\nimport torch\n" if own else "import torch\n")
    if precision is Precision.TF32:
        parts.append(_TF32)
    if plain:
        return "".join([*parts, _plain(baseline, own)])
    copied, steps = _steps(baseline, precision)
    text = (_LATE_SUBCLASS if own else _LATE_WRAPPER).format(
        label=baseline.label, steps="\n".join(f"        {step}" for step in steps)
    )
    parts += [_copies(copied), "\n\nneed_tensorrt()\n" if ways.need_tensorrt in copied else "", text]
    return "".join(parts)


def _plain(baseline: Baseline, own: bool) -> str:
    target = "self" if own else "self.model"
    call = "" if baseline.mode is None else f"\n        {target}.compile(mode={baseline.mode!r})"
    return (_SUBCLASS if own else _WRAPPER).format(label=baseline.label, compile=call)


def _steps(baseline: Baseline, precision: Precision) -> tuple[list[Callable[..., Any]], list[str]]:
    """The functions that are needed, and what is done with them at the first call."""
    copied: list[Callable[..., Any]] = []
    steps: list[str] = []
    if precision is Precision.HALF:
        copied.append(ways.in_16_bits)
        steps.append("call = in_16_bits(model, call, args, kwargs)")
    match baseline.way:
        case Way.COMPILE:
            steps.append(f"call = torch.compile(call, mode={baseline.mode!r})")
        case Way.CUDA_GRAPH:
            copied.append(ways.as_cuda_graphs)
            steps.append("call = as_cuda_graphs(call)")
        case Way.TENSORRT:
            copied += [ways.need_tensorrt, ways.with_tensorrt]
            steps.append(f"call = with_tensorrt(call, tf32={precision is not Precision.SAME})")
        case Way.EAGER:
            pass
    return copied, steps


def _copies(functions: list[Callable[..., Any]]) -> str:
    """The functions with everything that their texts name."""
    head = "\nfrom collections.abc import Callable\nfrom typing import Any\n\nCall = Callable[..., Any]\n"
    return "".join([head, *(f"\n\n{inspect.getsource(function)}" for function in functions)])
