"""Multi-head latent attention of DeepSeek-V2/V3, one decoding step after 4096 tokens (arXiv:2405.04434, 2412.19437).

Stresses: memory bandwidth. Two new tokens read 168 MB of cached keys and values and 61 MB of weights in float32, for
0.15 GFLOP of arithmetic.
Changed against the published task: one query per sample attends over 4097 positions and the output has one row. There,
a missing transpose makes 4097 rows of it, which depend on one cached position each (70 GFLOP, nearly all in the output
layer), and the rotary part cancels. Caches are as large as they are used (there 128 samples), filled with keys and
values drawn once instead of a prefill inside the constructor, and part of the weights, since inputs are drawn anew for
each call. They are only read: the new key and value join them inside the softmax, so that calls do not depend on each
other. The new token is at position 4096, not 0. Queries, new keys and new values have gain 3: attention over 4097
positions is then neither even nor blind for the new one.
"""

import torch
from torch import nn

BATCH = 2
CACHED = 4096
WIDTH = 2048
HEADS = 16
QUERY_RANK = 1536
LATENT = 512
PLAIN = 128  # numbers of a head's query and key without positions
ROTARY = 64  # and those with
VALUE = 128
THETA = 10000.0
CACHE = 50_000_000  # bytes of weights and cached keys that a device may keep near
SMALL = {
    "CACHED": 64,
    "WIDTH": 128,
    "HEADS": 4,
    "QUERY_RANK": 96,
    "LATENT": 64,
    "PLAIN": 32,
    "ROTARY": 16,
    "VALUE": 32,
}


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn neighbouring pairs of the last dimension; x is (..., ROTARY), cos and sin are (ROTARY / 2)."""
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class Model(nn.Module):
    """Queries through one low-rank pair, new key and value through another, attention over them and the caches."""

    cos: torch.Tensor
    sin: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, width: int, heads: int, query_rank: int, latent: int) -> None:
        super().__init__()
        self.heads = heads
        self.latent = latent
        self.scale = (PLAIN + ROTARY) ** -0.5
        self.query_down = nn.Linear(width, query_rank)
        self.query_norm = nn.RMSNorm(query_rank, eps=1e-6)
        self.query_up = nn.Linear(query_rank, heads * (PLAIN + ROTARY))
        self.key_value_down = nn.Linear(width, latent + ROTARY)
        self.key_value_norm = nn.RMSNorm(latent, eps=1e-6)
        self.key_value_up = nn.Linear(latent, heads * (PLAIN + VALUE))
        self.output = nn.Linear(heads * VALUE, width)
        self.register_buffer("cos", torch.zeros(ROTARY // 2))
        self.register_buffer("sin", torch.zeros(ROTARY // 2))
        self.register_buffer("keys", torch.zeros(BATCH, heads, CACHED, PLAIN + ROTARY))
        self.register_buffer("values", torch.zeros(BATCH, heads, CACHED, VALUE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The next token of each sample, (BATCH, 1, width), to the same shape."""
        query = self.query_up(self.query_norm(self.query_down(x)))
        query, query_rotary = torch.split(self._by_head(query), [PLAIN, ROTARY], -1)
        latent, key_rotary = torch.split(self.key_value_down(x), [self.latent, ROTARY], -1)
        both = self._by_head(self.key_value_up(self.key_value_norm(latent)))
        key, value = torch.split(both, [PLAIN, VALUE], -1)
        key_rotary = rotate(key_rotary, self.cos, self.sin)[:, None].expand(-1, self.heads, -1, -1)
        query = torch.cat((query, rotate(query_rotary, self.cos, self.sin)), -1) * self.scale
        key = torch.cat((key, key_rotary), -1)
        mixed = self._attend(query, key, value)
        out: torch.Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return out

    def _attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """One query over the cached positions and the new one; all are (batch, heads, 1, size)."""
        scores = torch.cat((query @ self.keys.mT, query @ key.mT), -1)
        weights = scores.softmax(-1)
        mixed: torch.Tensor = weights[..., :-1] @ self.values + weights[..., -1:] * value
        return mixed

    def _by_head(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 1, heads * size) to (batch, heads, 1, size)."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


def initialise(model: nn.Module) -> None:
    """Unit gain, peaked attention, keys (rotated already) and values as random as a prefill would leave them."""
    for name, part in model.named_children():
        if isinstance(part, nn.Linear):
            gain = {"query_up": 3.0, "key_value_up": 3.0}.get(name, 1.0)
            nn.init.normal_(part.weight, 0.0, gain * part.in_features**-0.5)
            nn.init.normal_(part.bias, 0.0, 0.1)
        elif isinstance(part, nn.RMSNorm):
            nn.init.normal_(part.weight, 1.0, 0.2)
    buffers = dict(model.named_buffers())
    angles = CACHED * THETA ** (-2 * torch.arange(ROTARY // 2, dtype=torch.float32) / ROTARY)
    buffers["cos"].copy_(angles.cos())
    buffers["sin"].copy_(angles.sin())
    buffers["keys"].normal_()
    buffers["values"].normal_()


def get_inputs() -> list[torch.Tensor]:
    """Hidden states of the two new tokens."""
    return [torch.randn(BATCH, 1, WIDTH)]


def get_init_inputs() -> list[object]:
    """Width, heads and the two ranks."""
    return [WIDTH, HEADS, QUERY_RANK, LATENT]


def least_operations() -> int:
    """Of the scores and the weighted sums alone, since small linear layers may be folded."""
    return 2 * BATCH * HEADS * (CACHED + 1) * (PLAIN + ROTARY + VALUE)


def least_bytes() -> int:
    """Cached keys and values, less what a device may keep near, and the tokens."""
    cached = 4 * BATCH * HEADS * CACHED * (PLAIN + ROTARY + VALUE)
    return max(0, cached - CACHE) + 4 * 2 * BATCH * WIDTH


LEAST_BYTES = least_bytes()
LEAST_OPERATIONS = least_operations()
