"""The least work of a task's reference: arithmetic of its products, and bytes that must move.

Counts without computing (fake tensors). Only matrix products, convolutions and attention count as
operations, so the figure is a lower bound. Does not know any device's ceilings.
"""

import copy
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from pike.core.task import LeastWork
from pike.judge.child.memory.layout import put_together, take_apart
from pike.judge.prepared_task import PreparedTask
from pike.judge.reference.reference import Inputs

_ANY_SEED = 0


_known: WeakKeyDictionary[PreparedTask, LeastWork] = WeakKeyDictionary()


def work_of(prepared: PreparedTask) -> LeastWork:
    """The work of a task's reference, counted once for each prepared task."""
    if prepared not in _known:
        leaves = (*prepared.shape.inputs.leaves, *prepared.shape.outputs.leaves)
        moved = sum(leaf.nbytes for leaf in leaves) + weight_bytes(prepared.model)
        _known[prepared] = LeastWork(moved, operations(prepared.model, prepared.draw(_ANY_SEED)))
    return _known[prepared]


def operations(model: nn.Module, inputs: Inputs) -> int:
    """Count the operations of one call; 0 if the model does not run on fake tensors."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one fused operator, which the counter does not know
    try:
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        # Copy the module, which might keep fake tensors, but not its weights.
        fake_model = copy.deepcopy(model, {id(t): fake.from_tensor(t) for t in (*model.parameters(), *model.buffers())})
        tensors, structure = take_apart((inputs.args, inputs.kwargs))
        device = next(iter(model.parameters()), torch.empty(0)).device
        args, kwargs = put_together(structure, [fake.from_tensor(tensor.to(device)) for tensor in tensors])
        with torch.no_grad(), fake, sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            fake_model(*args, **kwargs)
        return int(counter.get_total_flops())
    except Exception:  # the user's own model may do anything, and may need values
        return 0
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def weight_bytes(model: nn.Module) -> int:
    """Bytes of parameters and buffers; shared memory counts once."""
    tensors = [*model.parameters(), *model.buffers()]
    return sum({tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}.values())
