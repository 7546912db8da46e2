"""The state-space scan of Mamba-2 in two chunks of 64 steps (Dao and Gu 2024, arXiv:2405.21060, listing 1), batch 16.

Stresses: many small einsums, permutations, cumulative sums and masks on 8 MB of data; eager PyTorch is slower in
launching them than in computing.
Changed against the published task: decays below one and smaller B and C. There, the logarithms of the decays have both
signs, so that outputs reach 2e14 and differ by 15 orders of magnitude. A, B and C stay parameters, one for each
sequence and step, which is why batch and length are fixed. Shapes, parameters and arithmetic are the same.
"""

import torch
from torch import nn

BATCH = 16
STEPS = 128
HEADS = 8
WIDTH = 64
STATE = 16
CHUNK = 64
SMALL = {"BATCH": 2, "STEPS": 32, "HEADS": 2, "WIDTH": 16, "STATE": 8, "CHUNK": 16}
DECAY = 0.05
"""Scale of the negative logarithms of the decays: after a chunk of 64 steps about a thirteenth of a state is left."""


def chunked(x: torch.Tensor, size: int) -> torch.Tensor:
    """(batch, steps, ...) to (batch, steps / size, size, ...)."""
    return x.reshape(x.size(0), -1, size, *x.shape[2:])


def sums_between(x: torch.Tensor) -> torch.Tensor:
    """(..., n) to (..., n, n): the sum of the elements after j up to i, minus infinity where j > i."""
    sums = x.cumsum(dim=-1)
    between = sums[..., :, None] - sums[..., None, :]
    past = torch.tril(torch.ones(x.size(-1), x.size(-1), device=x.device, dtype=torch.bool))
    return between.masked_fill(~past, float("-inf"))


class Model(nn.Module):
    """Within chunks as attention, between chunks by their states."""

    def __init__(self, batch: int, steps: int, heads: int, width: int, state: int, chunk: int) -> None:
        super().__init__()
        self.chunk = chunk
        self.A = nn.Parameter(torch.zeros(batch, steps, heads))
        self.B = nn.Parameter(torch.zeros(batch, steps, heads, state))
        self.C = nn.Parameter(torch.zeros(batch, steps, heads, state))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, steps, heads, width) to the same shape."""
        xs, a, b, c = (chunked(part, self.chunk) for part in (x, self.A, self.B, self.C))
        a = a.permute(0, 3, 1, 2)
        sums = a.cumsum(dim=-1)
        within = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, torch.exp(sums_between(a)), xs)
        to_end = torch.exp(sums[..., -1:] - sums)
        states = torch.einsum("bclhn,bhcl,bclhp->bchpn", b, to_end, xs)
        states = torch.cat((torch.zeros_like(states[:, :1]), states), dim=1)
        between = torch.exp(sums_between(nn.functional.pad(sums[..., -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", between, states)[:, :-1]
        across = torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states, torch.exp(sums))
        return (within + across).flatten(1, 2)


def initialise(model: nn.Module) -> None:
    """Decays below one, and B and C so that outputs are of order one."""
    parameters = dict(model.named_parameters())
    parameters["A"].normal_().abs_().mul_(-DECAY)
    for name in ("B", "C"):
        parameters[name].normal_(0.0, STATE**-0.5)


def get_inputs() -> list[torch.Tensor]:
    """One batch of sequences."""
    return [torch.randn(BATCH, STEPS, HEADS, WIDTH)]


def get_init_inputs() -> list[int]:
    """Batch, steps, heads, width of a head, size of the state, steps in a chunk."""
    return [BATCH, STEPS, HEADS, WIDTH, STATE, CHUNK]


LEAST_BYTES = 4 * 2 * BATCH * STEPS * HEADS * WIDTH  # input and output; parameters may stay in a cache
LEAST_OPERATIONS = 2 * BATCH * HEADS * WIDTH * STATE * (STEPS // 2 - STATE)  # the state in the middle, for later steps
