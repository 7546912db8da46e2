"""What a task's reference computes at least: arithmetic of its products, and bytes that must move.

Knows how to count without computing (fake tensors). Does not know any device's ceilings. Only matrix products,
convolutions and attention count as operations, so the figure is a lower bound.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from pike.evaluate.bench import Bench
from pike.evaluate.child.layout import put_together, take_apart
from pike.evaluate.reference import Inputs

_ANY_SEED = 0


@dataclass(frozen=True, slots=True)
class Work:
    """One call of a reference.

    Attributes:
        operations: additions and multiplications of products, convolutions and attention; 0 where it cannot be counted.
        least_bytes: inputs, outputs and weights, each moved once.
    """

    operations: int
    least_bytes: int


_known: WeakKeyDictionary[Bench, Work] = WeakKeyDictionary()


def work_of(bench: Bench) -> Work:
    """The work of a task's reference; counted once for each bench."""
    if bench not in _known:
        leaves = (*bench.inputs.leaves, *bench.outputs.leaves)
        moved = sum(leaf.nbytes for leaf in leaves) + weight_bytes(bench.model)
        _known[bench] = Work(operations(bench.model, bench.draw(_ANY_SEED)), moved)
    return _known[bench]


def operations(model: nn.Module, inputs: Inputs) -> int:
    """What one call computes, without computing it; 0 where the model does not run on fake tensors."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one fused operator, which the counter does not know
    try:
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        # A copy, because a model that remembers something would keep fake tensors; weights are not copied.
        twin = copy.deepcopy(model, {id(t): fake.from_tensor(t) for t in (*model.parameters(), *model.buffers())})
        tensors, structure = take_apart((inputs.args, inputs.kwargs))
        device = next(iter(model.parameters()), torch.empty(0)).device
        args, kwargs = put_together(structure, [fake.from_tensor(tensor.to(device)) for tensor in tensors])
        with torch.no_grad(), fake, sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            twin(*args, **kwargs)
        return int(counter.get_total_flops())
    except Exception:  # the user's own model may do anything, and values that are not there may matter to it
        return 0
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def weight_bytes(model: nn.Module) -> int:
    """Parameters and buffers, those that share memory once."""
    tensors = [*model.parameters(), *model.buffers()]
    return sum({tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}.values())
