"""A language model of one RWKV-6 "Finch" layer (Peng et al. 2024, arXiv:2404.05892), 2 x 128 tokens, float32.

Stresses: a recurrence over tokens whose decays depend on the data, evaluated in chunks; token shifts, small products of
low rank and elementwise work between larger ones; half of the arithmetic is the output layer.
Changed against the published task: chunks of 16 tokens in float32 (there one of 128 in float64, because in float32 its
exponents overflow); the state behind the last token, which nothing reads, is not computed; together about 0.1 of 16
GFLOP less, and none of it in float64. Weights at which every part matters, with decays spread over (0.005, 1); there,
branches are small beside the stream. Shapes and parameters are the same.
"""

import math

import torch
from torch import nn

BATCH = 2
TOKENS = 128
VOCABULARY = 16384
WIDTH = 1024
HEAD = 64
HIDDEN = 3584
RANKS = (32, 64)
SMALL = {"BATCH": 2, "TOKENS": 48, "VOCABULARY": 256, "WIDTH": 64, "HEAD": 16, "HIDDEN": 224, "RANKS": (8, 16)}
CHUNK = 16
"""Tokens in a chunk: with the least decay, exp(8 x 5.3) is the largest factor, far from overflow."""
LEAST_DECAY = 0.005


def shifted(x: torch.Tensor) -> torch.Tensor:
    """What each token's predecessor has more than it; the first one's is zero. (batch, tokens, width)."""
    return nn.functional.pad(x, (0, 0, 1, -1)) - x


def widened(x: torch.Tensor) -> torch.Tensor:
    """In float32, or in its own dtype where that is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def recur(r: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor, bonus: torch.Tensor) -> torch.Tensor:
    """The recurrence out = r (S + diag(bonus) k v), S = diag(exp(decay)) S + k v for every token, from S = 0.

    Args:
        r: what is read, (batch, heads, tokens, head) like `k`, `v` and `decay`; tokens are a multiple of `CHUNK`.
        k: where it is written.
        v: what is written.
        decay: logarithms of the decays.
        bonus: what a token sees of itself, (heads, 1, 1, head).
    """
    r, k, v, decay = (widened(part).reshape(*part.shape[:2], -1, CHUNK, part.size(-1)) for part in (r, k, v, decay))
    after = decay.cumsum(dim=3)
    before, end = after - decay, after[..., -1:, :]
    middle = after[..., CHUNK // 2 - 1 : CHUNK // 2, :]
    scores = (r * torch.exp(before - middle)) @ (k * torch.exp(middle - after)).transpose(-2, -1)
    future = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=r.device).triu()
    y = scores.masked_fill(future, 0.0) @ v + (r * bonus * k).sum(-1, keepdim=True) * v
    written = (k * torch.exp(end - after)).transpose(-2, -1) @ v
    left = torch.exp(end).transpose(-2, -1)
    states = [torch.zeros_like(written[:, :, 0])]
    for chunk in range(written.size(2) - 1):
        states.append(left[:, :, chunk] * states[-1] + written[:, :, chunk])
    y = y + (r * torch.exp(before)) @ torch.stack(states, dim=2)
    return y.flatten(2, 3)


class TimeMix(nn.Module):
    """What tokens learn from those before them."""

    def __init__(self, width: int, head: int, ranks: tuple[int, int]) -> None:
        super().__init__()
        self.head = head
        self.mix = nn.Parameter(torch.zeros(width))
        self.mixes = nn.ParameterList(torch.zeros(width) for _ in range(5))
        self.mix_down = nn.Parameter(torch.zeros(width, 5 * ranks[0]))
        self.mix_up = nn.Parameter(torch.zeros(5, ranks[0], width))
        self.decay = nn.Parameter(torch.zeros(width))
        self.decay_down = nn.Parameter(torch.zeros(width, ranks[1]))
        self.decay_up = nn.Parameter(torch.zeros(ranks[1], width))
        self.bonus = nn.Parameter(torch.zeros(width // head, head))
        self.receptance = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, width, bias=False)
        self.norm = nn.GroupNorm(width // head, width, eps=64e-5)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        mixed = self.mixed(z)
        log_decay = self.decay + torch.tanh(mixed[0] @ self.decay_down) @ self.decay_up
        log_decay = -torch.exp(widened(log_decay)).clamp(max=-math.log(LEAST_DECAY))
        k, v, r = (layer(x) for layer, x in zip((self.key, self.value, self.receptance), mixed[1:4], strict=True))
        split = (*z.shape[:2], -1, self.head)
        r, k, v, log_decay = (part.view(split).transpose(1, 2) for part in (r, k, v, log_decay))
        y = recur(r, k, v, log_decay, self.bonus[:, None, None]).transpose(1, 2).flatten(2).to(z.dtype)
        y = self.norm(y.flatten(0, 1)).view(z.shape)
        branch: torch.Tensor = self.out(y * nn.functional.silu(self.gate(mixed[4])))
        return branch

    def mixed(self, z: torch.Tensor) -> list[torch.Tensor]:
        """Tokens with their predecessors in shares that depend on both, for decay, key, value, receptance, gate."""
        difference = shifted(z)
        low = torch.tanh((z + difference * self.mix) @ self.mix_down).view(*z.shape[:2], 5, -1)
        offsets = torch.einsum("btir,ird->ibtd", low, self.mix_up)
        return [z + difference * (mix + offset) for mix, offset in zip(self.mixes, offsets, strict=True)]


class ChannelMix(nn.Module):
    """A perceptron with a squared ReLU behind a gate."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.mix_key = nn.Parameter(torch.zeros(width))
        self.mix_receptance = nn.Parameter(torch.zeros(width))
        self.key = nn.Linear(width, hidden, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(hidden, width, bias=False)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        difference = shifted(z)
        k = torch.relu(self.key(z + difference * self.mix_key)).square()
        branch: torch.Tensor = torch.sigmoid(self.receptance(z + difference * self.mix_receptance)) * self.value(k)
        return branch


class Model(nn.Module):
    """Embedding, both mixes behind norms, logits of every position."""

    def __init__(self, vocabulary: int, width: int, head: int, hidden: int, ranks: tuple[int, int]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.norm0 = nn.LayerNorm(width)
        self.norm1 = nn.LayerNorm(width)
        self.time = TimeMix(width, head, ranks)
        self.norm2 = nn.LayerNorm(width)
        self.channel = ChannelMix(width, hidden)
        self.norm3 = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, tokens), a multiple of 16 of them, to logits (batch, tokens, vocabulary)."""
        x = self.norm0(self.embedding(tokens))
        x = x + self.time(self.norm1(x))
        x = x + self.channel(self.norm2(x))
        logits: torch.Tensor = self.output(self.norm3(x))
        return logits


def initialise(model: nn.Module) -> None:
    """Weights that keep values of order one, decays spread over most of what is possible, shares between 0 and 1."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            gain = 2.0 if name.endswith(("out", "time.gate", "channel.receptance")) else 1.0
            nn.init.normal_(module.weight, 0.0, gain / math.sqrt(module.in_features))
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight)
        elif isinstance(module, nn.LayerNorm | nn.GroupNorm):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0.0, 0.2)
        elif isinstance(module, TimeMix):
            initialise_mixes(module)
        elif isinstance(module, ChannelMix):
            nn.init.uniform_(module.mix_key)
            nn.init.uniform_(module.mix_receptance)


def initialise_mixes(mix: TimeMix) -> None:
    """The parameters of a time mix that are no layers."""
    for share in (mix.mix, *mix.mixes):
        nn.init.uniform_(share)
    width, rank = mix.decay_down.shape
    nn.init.normal_(mix.mix_down, 0.0, width**-0.5)
    nn.init.normal_(mix.mix_up, 0.0, 0.5 * mix.mix_up.size(1) ** -0.5)
    nn.init.normal_(mix.decay, -1.0, 1.0)
    nn.init.normal_(mix.decay_down, 0.0, width**-0.5)
    nn.init.normal_(mix.decay_up, 0.0, rank**-0.5)
    nn.init.normal_(mix.bonus)


def draw(batch: int, tokens: int) -> list[torch.Tensor]:
    """Sequences of random tokens."""
    return [torch.randint(VOCABULARY, (batch, tokens))]


def get_inputs() -> list[torch.Tensor]:
    """One batch of sequences."""
    return draw(BATCH, TOKENS)


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches and lengths."""
    return [draw(1, CHUNK), draw(3, 5 * CHUNK)]


def get_init_inputs() -> list[object]:
    """Vocabulary, width, width of a head, hidden width, ranks of the shares and of the decay."""
    return [VOCABULARY, WIDTH, HEAD, HIDDEN, RANKS]


WEIGHTS = 6 * WIDTH**2 + 2 * WIDTH * HIDDEN + (10 * RANKS[0] + 2 * RANKS[1]) * WIDTH + WIDTH * VOCABULARY
LEAST_BYTES = 4 * (WEIGHTS + BATCH * TOKENS * VOCABULARY)  # weights and logits
LEAST_OPERATIONS = 2 * BATCH * TOKENS * WEIGHTS
