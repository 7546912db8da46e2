"""Inputs of other kinds than a task draws: a closed table of transforms for finalists, and neighbours of an input.

Knows tensors of one call. Only floating-point inputs change; indices and flags stay as drawn. Does not know what is
right on them: the reference says that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from pike.evaluate.child.layout import put_together, take_apart
from pike.evaluate.reference import Inputs

_OFFSET = 8.0
"""Standard deviations of the usual input: enough that a variance taken as a difference of means cancels."""
_OUTLIER_SHARE, _OUTLIER_TIMES = 0.01, 30.0

_CHANGED = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
"""Narrower types have no arithmetic of their own."""

Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def _outliers(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """One element in a hundred, and at least one, is much larger."""
    flat = tensor.reshape(-1).clone()
    places = torch.randint(flat.numel(), (max(1, int(_OUTLIER_SHARE * flat.numel())),), generator=chance)
    flat[places.to(flat.device)] *= _OUTLIER_TIMES
    return flat.view(tensor.shape)


def _one_hot(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """One element of each row stays; work that skips part of a row misses some of them."""
    if tensor.dim() == 0:
        return tensor
    place = torch.randint(tensor.shape[-1], (*tensor.shape[:-1], 1), generator=chance).to(tensor.device)
    return torch.zeros_like(tensor).scatter(-1, place, tensor.gather(-1, place))


def _constant(tensor: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Every row repeats its first element: variance zero."""
    return tensor[..., :1].expand_as(tensor).contiguous() if tensor.dim() else tensor


def _each_float(change: Change) -> Callable[[Inputs, int], Inputs]:
    def changed(inputs: Inputs, seed: int) -> Inputs:
        chance = torch.Generator().manual_seed(seed)
        tensors, structure = take_apart((inputs.args, inputs.kwargs))
        made = [
            change(tensor, chance).to(tensor.dtype) if tensor.dtype in _CHANGED and tensor.numel() else tensor
            for tensor in tensors
        ]
        args, kwargs = put_together(structure, made)
        return Inputs(args, kwargs)

    return changed


def _nudge(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    step = torch.randint(-1, 2, tensor.shape, generator=chance).to(tensor.device)
    return torch.where(torch.isfinite(tensor), tensor * (1.0 + torch.finfo(tensor.dtype).eps * step), tensor)


@dataclass(frozen=True, slots=True)
class Regime:
    """One kind of inputs.

    Attributes:
        name: as a refusal names it.
        change: what it makes of drawn inputs; the seed decides its random choices.
        slack: how many times wider the error budget is.
    """

    name: str
    change: Callable[[Inputs, int], Inputs]
    slack: float = 1.0


_SLACK = 8.0
"""On inputs that a model was not made for it may be ill-conditioned, and then each order of a sum rounds differently: a
convolution in nine pieces before a group normalisation was beyond three times the budget in 460 of 1,500 draws on small
values, beyond eight times in 20, before the closer look that every refusal needs. On constant rows, where adding equal
numbers rounds the same way again and again, two orders differ by more than chance anyway. What regimes are for, code
that is right on the judged values only, is refused all the same (the corpus)."""

REGIMES = (
    Regime("small values", _each_float(lambda tensor, _: tensor * 1e-3), _SLACK),
    Regime("large values", _each_float(lambda tensor, _: tensor * 16.0), _SLACK),
    Regime("an offset", _each_float(lambda tensor, _: tensor + _OFFSET), _SLACK),
    Regime("outliers", _each_float(_outliers), _SLACK),
    Regime("one-hot rows", _each_float(_one_hot), _SLACK),
    Regime("constant rows", _each_float(_constant), _SLACK),
)

neighbour: Callable[[Inputs, int], Inputs] = _each_float(_nudge)
"""The same inputs, each floating-point element moved by at most about one unit in its last place."""
