"""The diffusion transformer of Stable Diffusion 3 (MMDiT), 28 joint blocks, eight images, float32 (arXiv:2403.03206).

Stresses: 3.2 billion weights in float32, products with 2048 rows, two streams that meet in attention over 264 tokens,
modulation by a time step.
Changed against the published task: each sample has eight context tokens of its own (there one row per sample is
broadcast into the tokens of all samples), the time step differs per sample and call, the table of positions is not
zero, and weights are such that both streams, gates and every layer reach the output (there the context changes it by
0.003). Same layers and arithmetic (4.7 TFLOP).
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 8
IMAGE = 256
PATCH = 16
CHANNELS = 4
CONTEXT = 8  # tokens
DEPTH = 28
HEADS = 28
WIDTH = 1792
TABLE = 64  # sides of the table of positions, of which the middle is used
FREQUENCIES = 128  # of the time step
CACHE = 50_000_000  # bytes of weights that a device may keep near
SMALL = {"BATCH": 2, "IMAGE": 64, "DEPTH": 3, "HEADS": 4, "WIDTH": 128, "TABLE": 8, "FREQUENCIES": 32}


class Linear(nn.Linear):
    """Without a first filling that `initialise` would overwrite: that takes minutes."""

    def reset_parameters(self) -> None:
        """Leaves the weights as they lie in memory."""


def mlp(width: int) -> nn.Sequential:
    """Two layers, four times as wide between them."""
    return nn.Sequential(Linear(width, 4 * width), nn.GELU(approximate="tanh"), Linear(4 * width, width))


def modulated(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Layer norm without weights, then scale and shift; x is (batch, tokens, width), the others (batch, 1, width)."""
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift


class Stream(nn.Module):
    """One stream's layers in a joint block; those of the last context stream end at its keys and values."""

    def __init__(self, width: int, heads: int, ends: bool) -> None:
        super().__init__()
        self.heads = heads
        self.modulation = Linear(width, (2 if ends else 6) * width)
        self.qkv = Linear(width, 3 * width)
        self.projection = None if ends else Linear(width, width)
        self.mlp = None if ends else mlp(width)

    def before(self, x: torch.Tensor, condition: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """Queries, keys and values (3, batch, heads, tokens, size), and what modulates the rest."""
        shift, scale, *rest = self.modulation(condition)[:, None].chunk(2 if self.mlp is None else 6, -1)
        qkv = self.qkv(modulated(x, shift, scale))
        return qkv.view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4), tuple(rest)

    def after(self, x: torch.Tensor, mixed: torch.Tensor, rest: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The stream with what attention found (batch, tokens, width) and its network, both gated."""
        if self.projection is None or self.mlp is None:
            return x
        gate, shift, scale, second_gate = rest
        x = x + gate * self.projection(mixed)
        out: torch.Tensor = x + second_gate * self.mlp(modulated(x, shift, scale))
        return out


class Block(nn.Module):
    """Two streams with weights of their own, one attention over the tokens of both."""

    def __init__(self, width: int, heads: int, ends: bool) -> None:
        super().__init__()
        self.context = Stream(width, heads, ends)
        self.image = Stream(width, heads, False)

    def forward(
        self, context: torch.Tensor, image: torch.Tensor, condition: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Both streams (batch, tokens, width); `condition` is (batch, width)."""
        of_context, context_rest = self.context.before(context, condition)
        of_image, image_rest = self.image.before(image, condition)
        query, key, value = torch.cat((of_context, of_image), -2)
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        count = context.shape[1]
        context = self.context.after(context, mixed[:, :count], context_rest)
        return context, self.image.after(image, mixed[:, count:], image_rest)


class Model(nn.Module):
    """Patches and positions, blocks, a last modulated layer, pixels."""

    positions: torch.Tensor

    def __init__(self, depth: int, heads: int, width: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(CHANNELS, width, PATCH, PATCH)
        self.time = nn.Sequential(Linear(2 * FREQUENCIES, width), nn.SiLU(), Linear(width, width))
        self.register_buffer("positions", torch.zeros(1, TABLE * TABLE, width))
        self.blocks = nn.ModuleList(Block(width, heads, index == depth - 1) for index in range(depth))
        self.modulation = Linear(width, 2 * width)
        self.pixels = Linear(width, PATCH * PATCH * CHANNELS)

    def forward(self, image: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Images (batch, channels, side, side), time steps (batch), context (batch, tokens, width) to images."""
        x = self.patches(image)
        rows, columns = x.shape[-2:]
        x = x.flatten(2).mT + self._middle(rows, columns)
        condition = F.silu(self.time(self._waves(time)))
        for block in self.blocks:
            context, x = block(context, x, condition)
        shift, scale = self.modulation(condition)[:, None].chunk(2, -1)
        x = self.pixels(modulated(x, shift, scale))
        x = x.view(-1, rows, columns, PATCH, PATCH, CHANNELS).permute(0, 5, 1, 3, 2, 4)
        out: torch.Tensor = x.reshape(image.shape)
        return out

    def _middle(self, rows: int, columns: int) -> torch.Tensor:
        """The middle of the table of positions: (1, rows * columns, width)."""
        top, left = (TABLE - rows) // 2, (TABLE - columns) // 2
        table = self.positions.view(1, TABLE, TABLE, -1)
        return table[:, top : top + rows, left : left + columns].flatten(1, 2)

    def _waves(self, time: torch.Tensor) -> torch.Tensor:
        """Cosines and sines of the time step (batch, 2 * FREQUENCIES)."""
        wide = torch.promote_types(time.dtype, torch.float32)
        index = torch.arange(FREQUENCIES, dtype=wide, device=time.device)
        angles = time.to(wide)[:, None] * torch.exp(-math.log(10000.0) / FREQUENCIES * index)
        return torch.cat((angles.cos(), angles.sin()), -1).to(time.dtype)


def initialise(model: nn.Module) -> None:
    """Unit gain, more where a branch would vanish: time, modulation (its bias too), queries and keys, networks."""
    for name, part in model.named_modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            gain = 2.0 if name.startswith("time") else 1.0
            gain = 1.5 if name.endswith("mlp.2") else gain
            gain = 0.7 if name.endswith("modulation") else gain
            nn.init.normal_(part.weight, 0.0, gain * part.weight[0].numel() ** -0.5)
            assert part.bias is not None
            nn.init.normal_(part.bias, 0.0, 0.3 if name.endswith("modulation") else 0.1)
            if name.endswith("qkv"):
                part.weight[: 2 * part.weight.shape[1]] *= 1.4
    for _, table in model.named_buffers():
        table.normal_(0.0, 0.5)


def draw(batch: int) -> list[torch.Tensor]:
    """Noisy latent images, time steps below 1000 (multiples of 4, exact in bfloat16), tokens of a prompt."""
    image = torch.randn(batch, CHANNELS, IMAGE, IMAGE)
    return [image, 4.0 * torch.randint(250, (batch,)), torch.randn(batch, CONTEXT, WIDTH)]


def get_inputs() -> list[torch.Tensor]:
    """One batch."""
    return draw(BATCH)


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches."""
    return [draw(1), draw(3)]


def get_init_inputs() -> list[object]:
    """Blocks, heads, width."""
    return [DEPTH, HEADS, WIDTH]


def least_operations() -> int:
    """Of the blocks' linear layers, without modulation, and of attention."""
    patches = (IMAGE // PATCH) ** 2
    tokens = patches + CONTEXT
    linear = DEPTH * tokens * 12 * WIDTH * WIDTH - CONTEXT * 9 * WIDTH * WIDTH
    return 2 * BATCH * (linear + DEPTH * 2 * tokens * tokens * WIDTH + patches * 2 * WIDTH * PATCH * PATCH * CHANNELS)


def least_bytes() -> int:
    """The blocks' weights, less what a device may keep near, and the images."""
    weights = 4 * WIDTH * WIDTH * (2 * 18 * DEPTH - 13)
    return max(0, weights - CACHE) + 4 * BATCH * (2 * CHANNELS * IMAGE * IMAGE + CONTEXT * WIDTH)


LEAST_BYTES = least_bytes()
LEAST_OPERATIONS = least_operations()
