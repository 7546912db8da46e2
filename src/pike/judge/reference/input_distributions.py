"""Input distributions that a task does not draw, for finalists, and neighbours of an input.

Most change floating-point inputs, one the other tensors. Python numbers are fixed in a child's calls,
so they change apart from these. The reference says what is right.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from pike.judge.child.memory.layout import Layout, put_together, replaced, take_apart
from pike.judge.reference.reference import Inputs
from pike.judge.reference.whole_numbers import other_whole

_OFFSET = 8.0
"""In standard deviations of the usual input; a variance taken as a difference of means cancels."""
_OUTLIER_SHARE, _OUTLIER_TIMES = 0.01, 30.0
_NUDGED_SHARE = 1 / 64
"""Of the elements of at most 16 bits in a neighbouring input: a step of all of them would change an answer
more than its own rounding does, and as much as products of 8-bit integers do."""
_EXTREMES, _EXTREME_TIMES = 3, 8.0
"""So few that code which samples one element in 64 does not see them in 19 of 20 calls."""
_MIXTURE = torch.tensor([[1e-3, 0.0], [16.0, 0.0], [0.0, 0.0], [1.0, _OFFSET], [1.0, 0.0]])
"""Factors and offsets of the stretches in mixed rows; the last leaves a row as it is."""

_CHANGED = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
"""Narrower types have no arithmetic of their own."""
_WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

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


def _extremes(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """A few elements at any places are far larger than all others."""
    flat = tensor.reshape(-1).clone()
    places = torch.randint(flat.numel(), (_EXTREMES,), generator=chance).to(flat.device)
    flat[places] = flat[places].sign() * flat.where(torch.isfinite(flat), 0.0).abs().amax() * _EXTREME_TIMES
    return flat.view(tensor.shape)


def _tail(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """More than half is as drawn, and all from a secret place on is larger: a prefix looks usual."""
    flat = tensor.reshape(-1).clone()
    rest = max(1, flat.numel() // 2 - flat.numel() // 64)
    flat[flat.numel() // 2 + int(torch.randint(rest, (), generator=chance)) :] *= 16.0
    return flat.view(tensor.shape)


def _mixed(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """A stretch of each row is as in another distribution, wherever it lies; the rest is as drawn."""
    if tensor.dim() == 0:
        return tensor
    length, each = tensor.shape[-1], (*tensor.shape[:-1], 1)
    start, kind, width = (
        torch.randint(high, each, generator=chance).to(tensor.device)
        for high in (length, len(_MIXTURE), max(length // 4, 1))
    )
    inside = (torch.arange(length, device=tensor.device) - start) % length <= width
    factor, offset = _MIXTURE.to(tensor)[kind].unbind(-1)
    return torch.where(inside, tensor * factor + offset, tensor)


def other_numbers(inputs: Inputs) -> Inputs | None:
    """The same tensors beside other Python numbers; None if there are none. Flags stay."""
    tensors, structure = take_apart((inputs.args, inputs.kwargs))
    changed = replaced(structure, (int, float), _other_number)
    if changed == structure:
        return None
    return Inputs(*put_together(changed, tensors))


def _other_number(number: float) -> float:
    if isinstance(number, bool):
        return number
    if isinstance(number, int):
        return number - 1 if number > 1 else number + 1
    return 0.75 * number


def _each(change: Change, kinds: tuple[torch.dtype, ...] = _CHANGED) -> Callable[[Inputs, int], Inputs]:
    def changed(inputs: Inputs, seed: int) -> Inputs:
        chance = torch.Generator().manual_seed(seed)
        tensors, structure = take_apart((inputs.args, inputs.kwargs))
        made = [
            change(tensor, chance).to(tensor.dtype) if tensor.dtype in kinds and tensor.numel() else tensor
            for tensor in tensors
        ]
        return Inputs(*put_together(structure, made))

    return changed


def _nudge(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Draws where the tensor lies: on a processor, a large input of a GPU would take seconds."""
    here = torch.Generator(tensor.device).manual_seed(int(torch.randint(1 << 62, (), generator=chance)))
    step = torch.randint(-1, 2, tensor.shape, generator=here, device=tensor.device, dtype=torch.int8)
    if tensor.dtype.itemsize <= 2:
        step *= torch.rand(tensor.shape, generator=here, device=tensor.device) < _NUDGED_SHARE
    moved = 1.0 + torch.finfo(tensor.dtype).eps * step.to(torch.promote_types(tensor.dtype, torch.float32))
    return torch.where(torch.isfinite(tensor), tensor * moved, tensor)


@dataclass(frozen=True, slots=True)
class InputDistribution:
    """A seeded change of drawn inputs.

    Attributes:
        name: completes "on inputs with".
        change: makes the inputs from drawn ones and a seed.
        slack: how many times wider the error budget is.
        kinds: the dtypes that it changes.
    """

    name: str
    change: Callable[[Inputs, int], Inputs]
    slack: float = 1.0
    kinds: tuple[torch.dtype, ...] = _CHANGED

    def applies(self, inputs: Layout) -> bool:
        """Whether there is something to change."""
        return any(leaf.dtype in self.kinds and leaf.nbytes for leaf in inputs.leaves)


_SLACK = 8.0
"""A model may be ill-conditioned on inputs that it was not made for, and then each order of a sum
rounds differently. A convolution in nine pieces before a group normalisation exceeded three times
the budget in 460 of 1,500 draws of small values, and eight times in 20
(`benchmarks/distribution_slack.py`). On constant rows equal numbers round the same way again and
again. Code that is right on the judged values only is still refused: the corpus has samples."""

DISTRIBUTIONS = (
    InputDistribution("small values", _each(lambda tensor, _: tensor * 1e-3), _SLACK),
    InputDistribution("large values", _each(lambda tensor, _: tensor * 16.0), _SLACK),
    InputDistribution("an offset", _each(lambda tensor, _: tensor + _OFFSET), _SLACK),
    InputDistribution("outliers", _each(_outliers), _SLACK),
    InputDistribution("one-hot rows", _each(_one_hot), _SLACK),
    InputDistribution("constant rows", _each(_constant), _SLACK),
    InputDistribution("a few extremes", _each(_extremes), _SLACK),
    InputDistribution("an unusual tail", _each(_tail), _SLACK),
    InputDistribution("mixed rows", _each(_mixed), _SLACK),
    InputDistribution("other masks, ids and lengths", _each(other_whole, _WHOLE), _SLACK, _WHOLE),
)


def unchanged(inputs: Layout) -> list[str]:
    """The dtypes of tensors that no distribution changes."""
    return sorted({str(leaf.dtype) for leaf in inputs.leaves if leaf.dtype not in (*_CHANGED, *_WHOLE)})


neighbour: Callable[[Inputs, int], Inputs] = _each(_nudge)
"""The same inputs, floating-point elements moved by at most one unit in their last place."""
