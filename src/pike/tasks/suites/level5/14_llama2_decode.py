"""A Llama-2 decoder of 8 layers reading one more token after 4,096 (Touvron et al. 2023, arXiv:2307.09288), float32.

Stresses: reading memory. One token for each of 8 prompts costs 10 GFLOP, for which 1.9 GB of weights and 4.3 GB of keys
and values are read.
Changed against the published task: keys and values of the prompts are buffers of exactly the rows that are read, drawn
at random once (there the constructor computes them in 40 TFLOP without a mask, in caches four times too large). They
lie heads first, so that products need no copy; attention is two products around a softmax of one row; and the new
token's own key and value are not written into the buffers but attended to beside them, so that calls leave no trace (1
MB of writes less). Gains in the projections, so that attention over 4,097 keys is peaked and matters, the token's own
key included. Cosines and sines in place of complex numbers. Parameters, operations and bytes read are the same.
"""

import math

import torch
from torch import nn

BATCH = 8
PROMPT = 4096
WIDTH = 2048
LAYERS = 8
HEADS = 16
HIDDEN = 5632
VOCABULARY = 32768
SMALL = {"BATCH": 2, "PROMPT": 48, "WIDTH": 64, "LAYERS": 2, "HEADS": 4, "HIDDEN": 192, "VOCABULARY": 256}
DTYPE = torch.float32
NORM_EPSILON = 1e-5
BASE = 10000.0
SELF = 0.09
"""Share of the query in the key: among thousands of keys, a token's own would hardly be seen without."""


def rotations(positions: int, width: int) -> torch.Tensor:
    """Cosine and sine of each position's angle for each pair of features: (positions, width / 2, 2)."""
    frequencies = BASE ** (-torch.arange(0, width, 2, dtype=DTYPE) / width)
    angles = torch.outer(torch.arange(positions, dtype=DTYPE), frequencies)
    return torch.stack((angles.cos(), angles.sin()), dim=-1)


def rotate(x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding (Su et al. 2021) of neighbouring pairs; x: (batch, heads, tokens, width)."""
    even, odd = x.view(*x.shape[:-1], -1, 2).unbind(-1)
    cosine, sine = rotation.unbind(-1)
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), dim=-1).flatten(-2)


class Norm(nn.Module):
    """Root-mean-square norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=DTYPE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to the same shape."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPSILON) * self.weight


class Attention(nn.Module):
    """Attention of the new token to those of the prompt and to itself."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, batch: int, prompt: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False, dtype=DTYPE)
        self.key = nn.Linear(width, width, bias=False, dtype=DTYPE)
        self.value = nn.Linear(width, width, bias=False, dtype=DTYPE)
        self.out = nn.Linear(width, width, bias=False, dtype=DTYPE)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(batch, heads, prompt, width // heads, dtype=DTYPE))

    def forward(self, x: torch.Tensor, rotation: torch.Tensor, start: int) -> torch.Tensor:
        """(batch, 1, width) to the same shape; `start` rows of the prompt are attended to."""
        layers = (self.query, self.key, self.value)
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in layers)
        q, k = rotate(q, rotation), rotate(k, rotation)
        keys, values = self.keys[: len(x), :, :start], self.values[: len(x), :, :start]
        scores = torch.cat((q @ keys.transpose(-2, -1), q @ k.transpose(-2, -1)), dim=-1)
        weights = torch.softmax(scores / math.sqrt(q.size(-1)), dim=-1)
        y = weights[..., :start] @ values + weights[..., start:] @ v
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

    def __init__(self, batch: int, prompt: int, sizes: tuple[int, int, int]) -> None:
        super().__init__()
        width, hidden, heads = sizes
        self.attention_norm = Norm(width)
        self.attention = Attention(batch, prompt, width, heads)
        self.perceptron_norm = Norm(width)
        self.perceptron = Perceptron(width, hidden)

    def forward(self, x: torch.Tensor, rotation: torch.Tensor, start: int) -> torch.Tensor:
        """(batch, 1, width) to the same shape."""
        x = x + self.attention(self.attention_norm(x), rotation, start)
        branch: torch.Tensor = self.perceptron(self.perceptron_norm(x))
        return x + branch


class Model(nn.Module):
    """Embedding, layers, norm, logits of the token after the new one."""

    rotation: torch.Tensor

    def __init__(self, sizes: tuple[int, int, int], layers: int, vocabulary: int, batch: int, prompt: int) -> None:
        super().__init__()
        width, _, heads = sizes
        self.embedding = nn.Embedding(vocabulary, width, dtype=DTYPE)
        self.layers = nn.ModuleList(Layer(batch, prompt, sizes) for _ in range(layers))
        self.norm = Norm(width)
        self.head = nn.Linear(width, vocabulary, bias=False, dtype=DTYPE)
        self.register_buffer("rotation", rotations(prompt + 1, width // heads))

    def forward(self, tokens: torch.Tensor, start: int) -> torch.Tensor:
        """Tokens (batch, 1) at position `start` to logits (batch, 1, vocabulary)."""
        x = self.embedding(tokens)
        rotation = self.rotation[start : start + 1]
        for layer in self.layers:
            x = layer(x, rotation, start)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def initialise(model: nn.Module) -> None:
    """Weights that keep values of order one; larger ones in attention, so that it is peaked and matters."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            gain = 3.0 if name.endswith("query") else 1.5 if name.endswith(("value", "out")) else 1.0
            nn.init.normal_(module.weight, 0.0, gain / math.sqrt(module.in_features))
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight)
        elif isinstance(module, Norm):
            nn.init.normal_(module.weight, 1.0, 0.2)
    for module in model.modules():
        if isinstance(module, Attention):
            initialise_attention(module)


def initialise_attention(attention: Attention) -> None:
    """What the prompts left behind, and keys that resemble queries, so that a token attends to itself as well."""
    nn.init.normal_(attention.keys)
    nn.init.normal_(attention.values)
    attention.key.weight.add_(attention.query.weight, alpha=SELF)


def draw(batch: int, start: int) -> list[object]:
    """One new token for each prompt, and its position."""
    return [torch.randint(VOCABULARY, (batch, 1)), start]


def get_inputs() -> list[object]:
    """The token after the prompts."""
    return draw(BATCH, PROMPT)


def get_held_out_inputs() -> list[list[object]]:
    """Fewer and shorter prompts."""
    return [draw(1, PROMPT), draw(BATCH - 1, PROMPT // 2 + 1), draw(1, 1)]


def get_init_inputs() -> list[object]:
    """Sizes (width, hidden width, heads), layers, vocabulary, and the number and length of the prompts."""
    return [(WIDTH, HIDDEN, HEADS), LAYERS, VOCABULARY, BATCH, PROMPT]


WEIGHTS = LAYERS * (4 * WIDTH * WIDTH + 3 * WIDTH * HIDDEN) + WIDTH * VOCABULARY
KEYS = LAYERS * BATCH * PROMPT * WIDTH  # the values of tokens that nothing attends to need not be read
LEAST_BYTES = 4 * (WEIGHTS + KEYS + BATCH * VOCABULARY)
LEAST_OPERATIONS = 2 * (BATCH * WEIGHTS + KEYS)
