"""A baseline as a candidate file like any other, for both kinds of task and each precision.

In their own arithmetic, eager and `torch.compile` are what a user types, to the letter; all else
takes effect at the first call, when weights and inputs are there. Does not judge (`judge`).
"""

from __future__ import annotations

import inspect

from pike.baselines.catalogue import Baseline, Technique
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Evaluation, Precision, Status

_TF32 = """
torch.set_float32_matmul_precision("high")
torch.backends.cudnn.allow_tf32 = True
"""

_SUBCLASS = '''

class ModelNew(Model):
    """{label}."""
'''

_SUBCLASS_INIT = """
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs){compile}
"""

_WRAPPER = '''

class ModelNew(torch.nn.Module):
    """{label}."""

    def __init__(self, model):
        super().__init__()
        self.model = model{compile}

    @classmethod
    def from_reference(cls, model):
        return cls(model)
'''

_WRAPPER_FORWARD = """
    def forward(self, *args, **kwargs):
        return self.model(*args, **kwargs)
"""

_LATE_FORWARD = """
    def forward(self, *args, **kwargs):
        model, call = {model_and_call}
{steps}
        self.forward = call
        return call(*args, **kwargs)
"""


def source(baseline: Baseline, task: Task, precision: Precision = Precision.SAME) -> str:
    """The candidate file that plays `baseline` on `task`.

    For a `SOURCE` task it is the task's own file with a subclass of `Model`, which gets the weights
    by `load_state_dict`. For a `MODULE` task it wraps the module that `from_reference` is given.

    Args:
        precision: what a user may do to it: nothing (`same`), torch's switches for TensorFloat-32
            (`tf32`), or weights and inputs in 16 bits (`half`).
    """
    own = task.kind is TaskKind.SOURCE
    plain = precision is not Precision.HALF and baseline.technique in (Technique.EAGER, Technique.COMPILE)
    parts = [task.source.rstrip() + "\n"] if own else []
    if not (own and plain and precision is Precision.SAME):
        parts.append("\n\nimport torch\n" if own else "import torch\n")
    if precision is Precision.TF32:
        parts.append(_TF32)
    if plain:
        return "".join([*parts, _plain(baseline, own)])
    copied, steps = _steps(baseline, precision)
    text = ((_SUBCLASS if own else _WRAPPER) + _LATE_FORWARD).format(
        label=baseline.label,
        compile="",
        model_and_call="self, super().forward" if own else "self.model, self.model.forward",
        steps="\n".join(f"        {step}" for step in steps),
    )
    parts += [_copies(copied), "\n\nneed_tensorrt()\n" if "need_tensorrt" in copied else "", text]
    return "".join(parts)


def _plain(baseline: Baseline, own: bool) -> str:
    target = "self" if own else "self.model"
    call = "" if baseline.mode is None else f"\n        {target}.compile(mode={baseline.mode!r})"
    parts = _SUBCLASS + _SUBCLASS_INIT if own else _WRAPPER + _WRAPPER_FORWARD
    return parts.format(label=baseline.label, compile=call)


def _steps(baseline: Baseline, precision: Precision) -> tuple[list[str], list[str]]:
    """The names of the functions that a candidate needs, and its steps at the first call."""
    copied: list[str] = []
    steps: list[str] = []
    if precision is Precision.HALF:
        copied.append("in_16_bits")
        steps.append("call = in_16_bits(model, call, args, kwargs)")
    match baseline.technique:
        case Technique.COMPILE:
            steps.append(f"call = torch.compile(call, mode={baseline.mode!r})")
        case Technique.CUDA_GRAPH:
            copied.append("as_cuda_graphs")
            steps.append("call = as_cuda_graphs(call)")
        case Technique.TENSORRT:
            copied += ["need_tensorrt", "with_tensorrt"]
            steps.append(f"call = with_tensorrt(call, tf32={precision is not Precision.SAME})")
    return copied, steps


def _copies(names: list[str]) -> str:
    """The functions of `techniques` with everything that their texts name."""
    from pike.baselines import techniques  # imports torch, which few commands need

    head = "\nfrom collections.abc import Callable\nfrom typing import Any\n\nCall = Callable[..., Any]\n"
    return "".join([head, *(f"\n\n{inspect.getsource(getattr(techniques, name))}" for name in names)])


_NOT_IMPORTED = "torch_tensorrt cannot be imported"


def missing_here(baseline: Baseline, evaluation: Evaluation) -> str:
    """Why a baseline cannot be measured on this machine, empty if it was.

    The verdict tells, because only the child, in its sandbox, knows what it can import.
    """
    if baseline.technique is not Technique.TENSORRT or evaluation.status is not Status.BUILD_ERROR:
        return ""
    lines = f"{evaluation.reason}\n{evaluation.log}".splitlines()
    found = next((line for line in lines if _NOT_IMPORTED in line), "")
    return found[found.index(_NOT_IMPORTED) :] + " (extra tensorrt)" if found else ""
