"""Other integers in the place of an input's: ids, offsets, lengths and masks.

Knows which integers stay valid without knowing what they mean. Does not know when they are drawn.
"""

import torch

_MOST_RANGE = 1 << 24


def is_rising(tensor: torch.Tensor) -> bool:
    """Whether the integers of one dimension rise as offsets do; those that only count up are ids."""
    steps = _steps(tensor)
    return bool((steps >= 0).all() and (steps > 1).any())


def is_falling(tensor: torch.Tensor) -> bool:
    """Whether the integers of one dimension fall as sorted lengths do."""
    steps = _steps(tensor)
    return bool((steps <= 0).all() and (steps < 0).any())


def _steps(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.long().diff() if tensor.dim() == 1 else torch.zeros(0)


def other_whole(tensor: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Other integers of the same range: indices stay valid, and the first is as it was.

    Offsets that rise and lengths that fall keep their order and their ends.
    """
    if is_falling(tensor):
        return other_whole(tensor.flip(0), chance).flip(0)
    old = tensor.long()
    low, high = int(old.amin()), int(old.amax())
    fixed = low == high
    if fixed:  # lengths become shorter, masks of ones get zeros
        low = high // 2
    if high <= low or high - low > _MOST_RANGE:
        return tensor
    if tensor.dim() == 0:
        return torch.full_like(tensor, low)
    rising = not fixed and bool((old.diff(dim=-1) >= 0).all())
    if not fixed and tensor.dim() == 1 and len(set(old.tolist())) == len(old):
        between = torch.randperm(high - low - 1, generator=chance)[: len(old) - 2].sort().values + low + 1
        new = torch.cat([old[:1].cpu(), between, old[-1:].cpu()]) if rising else old.cpu()
        return (new if rising else new[torch.randperm(len(new), generator=chance)]).to(tensor)
    new = torch.randint(low, high + 1, old.shape, generator=chance).to(old.device)
    if rising:
        new = new.sort(dim=-1).values
        new[..., -1] = old[..., -1]
    new[..., 0] = old[..., 0]
    return new.to(tensor.dtype)
