"""A Llama-2 decoder of 4 layers reading 8 prompts of 256 tokens, bfloat16 (Touvron et al. 2023, arXiv:2307.09288).

Stresses: matrix products at the full rate of tensor cores (1 TFLOP), with rotations, root-mean-square norms and gates
between them, which eager PyTorch computes in float32 and one at a time.
Changed against the published task: attention looks to the left only (there it has no mask, though it fills a cache of
keys and values; this saves up to 8.6 of 996 GFLOP); no cache, because nothing reads it again (there 2.1 GB of state, 32
times what 8 prompts need; 67 MB of writes less); cosines and sines in the table of rotations in place of complex
numbers; gains in the projections and norms, so that no matrix can be left out (there attention is nearly uniform);
bfloat16 is named where it is meant, not set as PyTorch's default. Shapes, parameters and the rest are the same.
"""

import math

import torch
from torch import nn

BATCH = 8
TOKENS = 256
WIDTH = 2048
LAYERS = 4
HEADS = 16
HIDDEN = 5632
VOCABULARY = 16384
MOST_TOKENS = 2048
SMALL = {
    "BATCH": 2,
    "TOKENS": 24,
    "WIDTH": 64,
    "LAYERS": 2,
    "HEADS": 4,
    "HIDDEN": 192,
    "VOCABULARY": 256,
    "MOST_TOKENS": 64,
}
DTYPE = torch.bfloat16
NORM_EPSILON = 1e-5
BASE = 10000.0


def widened(x: torch.Tensor) -> torch.Tensor:
    """In float32, or in its own dtype where that is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def rotations(positions: int, width: int) -> torch.Tensor:
    """Cosine and sine of each position's angle for each pair of features: (positions, width / 2, 2)."""
    frequencies = BASE ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), frequencies)
    return torch.stack((angles.cos(), angles.sin()), dim=-1)


def rotate(x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding (Su et al. 2021) of neighbouring pairs; x: (batch, tokens, heads, width)."""
    even, odd = widened(x).view(*x.shape[:-1], -1, 2).unbind(-1)
    cosine, sine = rotation[:, None].unbind(-1)
    turned = torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1)
    return turned.flatten(-2).to(x.dtype)


class Norm(nn.Module):
    """Root-mean-square norm, computed in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=DTYPE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to the same shape."""
        wide = widened(x)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + NORM_EPSILON)
        return wide.to(x.dtype) * self.weight


class Attention(nn.Module):
    """Causal attention with rotated queries and keys."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False, dtype=DTYPE)
        self.key = nn.Linear(width, width, bias=False, dtype=DTYPE)
        self.value = nn.Linear(width, width, bias=False, dtype=DTYPE)
        self.out = nn.Linear(width, width, bias=False, dtype=DTYPE)

    def forward(self, x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)) for layer in (self.query, self.key, self.value))
        q, k = rotate(q, rotation), rotate(k, rotation)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed: torch.Tensor = self.out(y.transpose(1, 2).flatten(-2))
        return mixed


class Perceptron(nn.Module):
    """Two layers with a gate between them (SwiGLU)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False, dtype=DTYPE)
        self.up = nn.Linear(width, hidden, bias=False, dtype=DTYPE)
        self.down = nn.Linear(hidden, width, bias=False, dtype=DTYPE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to the same shape."""
        y: torch.Tensor = self.down(nn.functional.silu(self.gate(x)) * self.up(x))
        return y


class Layer(nn.Module):
    """Attention and perceptron, each behind a norm and added to the stream."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm = Norm(width)
        self.attention = Attention(width, heads)
        self.perceptron_norm = Norm(width)
        self.perceptron = Perceptron(width, hidden)

    def forward(self, x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        x = x + self.attention(self.attention_norm(x), rotation)
        branch: torch.Tensor = self.perceptron(self.perceptron_norm(x))
        return x + branch


class Model(nn.Module):
    """Embedding, layers, norm, logits of every position."""

    rotation: torch.Tensor

    def __init__(self, sizes: tuple[int, int, int, int], layers: int, most_tokens: int) -> None:
        super().__init__()
        vocabulary, width, hidden, heads = sizes
        self.embedding = nn.Embedding(vocabulary, width, dtype=DTYPE)
        self.layers = nn.ModuleList(Layer(width, heads, hidden) for _ in range(layers))
        self.norm = Norm(width)
        self.head = nn.Linear(width, vocabulary, bias=False, dtype=DTYPE)
        self.register_buffer("rotation", rotations(most_tokens, width // heads))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, tokens) to logits (batch, tokens, vocabulary)."""
        x = self.embedding(tokens)
        rotation = self.rotation[: tokens.size(1)]
        for layer in self.layers:
            x = layer(x, rotation)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def initialise(model: nn.Module) -> None:
    """Weights that keep values of order one; somewhat larger ones in attention, so that it is peaked and matters."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            gain = 1.5 if name.endswith(("query", "value", "out")) else 1.0
            nn.init.normal_(module.weight, 0.0, gain / math.sqrt(module.in_features))
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight)
        elif isinstance(module, Norm):
            nn.init.normal_(module.weight, 1.0, 0.2)


def draw(batch: int, tokens: int) -> list[torch.Tensor]:
    """Prompts of random tokens."""
    return [torch.randint(VOCABULARY, (batch, tokens))]


def get_inputs() -> list[torch.Tensor]:
    """One batch of prompts."""
    return draw(BATCH, TOKENS)


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches and lengths."""
    return [draw(1, MOST_TOKENS // 2), draw(3, 17), draw(2, 1)]


def get_init_inputs() -> list[object]:
    """Sizes (vocabulary, width, hidden width, heads), layers, and the longest sequence."""
    return [(VOCABULARY, WIDTH, HIDDEN, HEADS), LAYERS, MOST_TOKENS]


LAYER_WEIGHTS = 4 * WIDTH * WIDTH + 3 * WIDTH * HIDDEN
WEIGHTS = LAYERS * LAYER_WEIGHTS + WIDTH * VOCABULARY
LEAST_BYTES = 2 * (WEIGHTS + BATCH * TOKENS * VOCABULARY)  # weights and logits
LEAST_OPERATIONS = 2 * BATCH * TOKENS * (WEIGHTS + LAYERS * TOKENS * WIDTH)  # attention to the left only
