"""Multi-head latent attention of DeepSeek-V2/V3, one layer, prefill of 8 x 1024 tokens (arXiv:2405.04434, 2412.19437).

Stresses: low-rank projections with norms between them, rotary positions on a part of each head, causal attention with
192 numbers per query and key and 128 per value, in float32.
Changed against the published task: attention goes over the positions. There, a missing transpose lets each position
attend over its own 16 heads, and the rotary part cancels. Arithmetic grows from 253 to 337 GFLOP (295 if masked scores
are skipped). The table of positions belongs to the model instead of the inputs, weights have unit gain, except that
queries get 2 and the output 3, without which attention averages evenly.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 8
TOKENS = 1024
WIDTH = 2048
HEADS = 16
QUERY_RANK = 1536
LATENT = 512
PLAIN = 128  # numbers of a head's query and key without positions
ROTARY = 64  # and those with
VALUE = 128
THETA, STRETCH, TRAINED_TOKENS = 10000.0, 40.0, 4096  # YaRN, arXiv:2309.00071
SCALE = (PLAIN + ROTARY) ** -0.5 * (0.1 * math.log(STRETCH) + 1.0) ** 2
SMALL = {
    "BATCH": 2,
    "TOKENS": 48,
    "WIDTH": 128,
    "HEADS": 4,
    "QUERY_RANK": 96,
    "LATENT": 64,
    "PLAIN": 32,
    "ROTARY": 16,
    "VALUE": 32,
}


def rotation_angles(positions: int) -> torch.Tensor:
    """YaRN's angles (positions, ROTARY / 2): slow frequencies are divided by STRETCH, fast ones kept."""

    def index_of(turns: int) -> float:
        """The frequency that turns so often over the context of the training."""
        return ROTARY * math.log(TRAINED_TOKENS / (turns * 2 * math.pi)) / (2 * math.log(THETA))

    low, high = max(math.floor(index_of(32)), 0), min(math.ceil(index_of(1)), ROTARY - 1)
    index = torch.arange(ROTARY // 2, dtype=torch.float32)
    frequency = THETA ** (-2 * index / ROTARY)
    slow = ((index - low) / (high - low)).clamp(0, 1)
    frequency = frequency * (1 - slow) + frequency / STRETCH * slow
    return torch.arange(positions, dtype=torch.float32)[:, None] * frequency


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn neighbouring pairs of the last dimension; x is (..., tokens, ROTARY), cos and sin (tokens, ROTARY / 2)."""
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class Model(nn.Module):
    """Queries through one low-rank pair, keys and values through another, one rotary key for all heads."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, width: int, heads: int, query_rank: int, latent: int) -> None:
        super().__init__()
        self.heads = heads
        self.latent = latent
        self.query_down = nn.Linear(width, query_rank)
        self.query_norm = nn.RMSNorm(query_rank, eps=1e-6)
        self.query_up = nn.Linear(query_rank, heads * (PLAIN + ROTARY))
        self.key_value_down = nn.Linear(width, latent + ROTARY)
        self.key_value_norm = nn.RMSNorm(latent, eps=1e-6)
        self.key_value_up = nn.Linear(latent, heads * (PLAIN + VALUE))
        self.output = nn.Linear(heads * VALUE, width)
        self.register_buffer("cos", torch.zeros(TOKENS, ROTARY // 2))
        self.register_buffer("sin", torch.zeros(TOKENS, ROTARY // 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape; at most TOKENS tokens, the first at position 0."""
        batch, tokens, _ = x.shape
        cos, sin = self.cos[:tokens], self.sin[:tokens]
        query = self.query_up(self.query_norm(self.query_down(x)))
        query, query_rotary = torch.split(self._by_head(query), [PLAIN, ROTARY], -1)
        latent, key_rotary = torch.split(self.key_value_down(x), [self.latent, ROTARY], -1)
        both = self._by_head(self.key_value_up(self.key_value_norm(latent)))
        key, value = torch.split(both, [PLAIN, VALUE], -1)
        key_rotary = rotate(key_rotary, cos, sin)[:, None].expand(-1, self.heads, -1, -1)
        query = torch.cat((query, rotate(query_rotary, cos, sin)), -1)
        key = torch.cat((key, key_rotary), -1)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=SCALE)
        out: torch.Tensor = self.output(mixed.transpose(1, 2).reshape(batch, tokens, -1))
        return out

    def _by_head(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, heads * size) to (batch, heads, tokens, size)."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


def initialise(model: nn.Module) -> None:
    """Unit gain, biases that matter, norm weights that differ, peaked attention, the table of positions."""
    for name, part in model.named_children():
        if isinstance(part, nn.Linear):
            gain = {"query_up": 2.0, "output": 3.0}.get(name, 1.0)
            nn.init.normal_(part.weight, 0.0, gain * part.in_features**-0.5)
            nn.init.normal_(part.bias, 0.0, 0.1)
        elif isinstance(part, nn.RMSNorm):
            nn.init.normal_(part.weight, 1.0, 0.2)
    angles = rotation_angles(TOKENS)
    tables = dict(model.named_buffers())
    tables["cos"].copy_(angles.cos())
    tables["sin"].copy_(angles.sin())


def get_inputs() -> list[torch.Tensor]:
    """Hidden states of one batch."""
    return [torch.randn(BATCH, TOKENS, WIDTH)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches and lengths."""
    return [[torch.randn(1, TOKENS, WIDTH)], [torch.randn(3, TOKENS // 3, WIDTH)]]


def get_init_inputs() -> list[object]:
    """Width, heads and the two ranks."""
    return [WIDTH, HEADS, QUERY_RANK, LATENT]


def least_operations() -> int:
    """Of the linear layers, the query's two taken as one where that is less, and of the scores below the diagonal."""
    query = HEADS * (PLAIN + ROTARY)
    linear = min(QUERY_RANK * (WIDTH + query), WIDTH * query) + WIDTH * (LATENT + ROTARY)
    linear += LATENT * HEADS * (PLAIN + VALUE) + HEADS * VALUE * WIDTH
    scores = HEADS * (TOKENS + 1) * (PLAIN + ROTARY + VALUE) // 2
    return 2 * BATCH * TOKENS * (linear + scores)


LEAST_BYTES = 4 * 2 * BATCH * TOKENS * WIDTH  # hidden states in and out; weights may stay in a cache
LEAST_OPERATIONS = least_operations()
