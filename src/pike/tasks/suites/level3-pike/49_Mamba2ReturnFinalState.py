"""The state-space scan of Mamba-2 with the state after its last step (Dao and Gu 2024, arXiv:2405.21060), batch 16.

Stresses: many small einsums, permutations, cumulative sums and masks on 8 MB of data, and two outputs: the sequence and
what the next call of a decoder would start from.
Changed against the published task: the sequence is returned beside the state. There, the state alone is, while most of
the sequence is computed and dropped, and half of the parameters (C) reach no output; deleting that is no optimisation.
This adds the smaller part of the sequence to the arithmetic (one einsum and an addition, 237 million operations for
204). Decays below one and smaller B and C, so that outputs are of order one (3.7e13 there). The shapes of the state,
the parameters and the rest are the same.
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

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, steps, heads, width) to the same shape, and the last state, (batch, heads, width, state)."""
        xs, a, b, c = (chunked(part, self.chunk) for part in (x, self.A, self.B, self.C))
        a = a.permute(0, 3, 1, 2)
        sums = a.cumsum(dim=-1)
        within = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, torch.exp(sums_between(a)), xs)
        to_end = torch.exp(sums[..., -1:] - sums)
        states = torch.einsum("bclhn,bhcl,bclhp->bchpn", b, to_end, xs)
        states = torch.cat((torch.zeros_like(states[:, :1]), states), dim=1)
        between = torch.exp(sums_between(nn.functional.pad(sums[..., -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", between, states)
        across = torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states[:, :-1], torch.exp(sums))
        return (within + across).flatten(1, 2), states[:, -1].contiguous()


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


LEAST_BYTES = 4 * BATCH * HEADS * WIDTH * (2 * STEPS + STATE)  # inputs and outputs; parameters may stay in a cache
LEAST_OPERATIONS = 2 * BATCH * HEADS * WIDTH * STATE * (STEPS - STATE)  # the last state
