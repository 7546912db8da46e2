"""Swin Transformer V2 tiny for 1000 classes on ten images of 224 x 224 (Liu et al. 2021, arXiv:2111.09883).

Stresses: attention in windows of 7 x 7 tokens: scaled cosine scores with a position bias and, in every other block, a
cyclic shift and a mask; many small batched products between copies, then wide products (MLP), layer normalisation after
each branch and GELU. The position bias comes from a small MLP that does not depend on the input.
Changed against the published task: He weights; random query and value biases, score scales, and scales and offsets of
layer normalisation, of which attention's grow from block to block; images of differing contrast and brightness. There,
outputs for different images differ by 17 %, and in three blocks the position bias can be dropped unnoticed. The scores'
clamp is a number instead of a tensor that each block copies to the device. Shapes, layers and arithmetic are the same,
and so is the cost but for those copies.
"""

import math

import torch
from torch import nn

BATCH = 10
IMAGE = 224
PATCH = 4
EMBED = 96
DEPTHS = (2, 2, 6, 2)
HEADS = (3, 6, 12, 24)
WINDOW = 7
MLP_RATIO = 4
POSITION_WIDTH = 512
CLASSES = 1000
SMALL = {"BATCH": 2, "IMAGE": 56, "EMBED": 32, "DEPTHS": (2, 2), "HEADS": (2, 4), "POSITION_WIDTH": 64, "CLASSES": 100}
MOST_LOG_SCALE = math.log(100.0)
BIAS_GAIN = 4.0
"""Of the weights that make the position bias: enough that every block's matters."""
GROWTH = 1.5
"""Of attention's share from block to block of a stage: what comes late is added to more."""


class Projection(nn.Module):
    """Queries, keys and values in one product, with a bias for queries and values."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3 * channels, channels))
        self.query_bias = nn.Parameter(torch.zeros(channels))
        self.value_bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., channels) to (..., 3 * channels)."""
        bias = torch.cat((self.query_bias, torch.zeros_like(self.query_bias), self.value_bias))
        return nn.functional.linear(x, self.weight, bias)


class Attention(nn.Module):
    """Scaled cosine attention among the tokens of each window, with a position bias and perhaps a mask."""

    offsets: torch.Tensor
    index: torch.Tensor

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.log_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.position_in = nn.Linear(2, POSITION_WIDTH)
        self.position_out = nn.Linear(POSITION_WIDTH, heads, bias=False)
        self.project_in = Projection(channels)
        self.project_out = nn.Linear(channels, channels)
        self.register_buffer("offsets", position_offsets())
        self.register_buffer("index", position_index())

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """(batch * windows, tokens, channels), same shape out; the mask is (windows, tokens, tokens)."""
        rows, tokens, channels = x.shape
        split = self.project_in(x).view(rows, tokens, 3, self.heads, channels // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        query, key = nn.functional.normalize(query, dim=-1), nn.functional.normalize(key, dim=-1)
        scale = torch.clamp(self.log_scale, max=MOST_LOG_SCALE).exp()
        scores = query @ key.transpose(-2, -1) * scale + self._bias(tokens)
        if mask is not None:
            windows = mask.shape[0]
            scores = scores.view(-1, windows, self.heads, tokens, tokens) + mask[:, None]
            scores = scores.view(rows, self.heads, tokens, tokens)
        y = (scores.softmax(-1) @ value).transpose(1, 2).reshape(rows, tokens, channels)
        out: torch.Tensor = self.project_out(y)
        return out

    def _bias(self, tokens: int) -> torch.Tensor:
        """(heads, tokens, tokens), between 0 and 16."""
        table = self.position_out(torch.relu(self.position_in(self.offsets))).view(-1, self.heads)
        bias: torch.Tensor = table[self.index.view(-1)].view(tokens, tokens, self.heads).permute(2, 0, 1)
        return 16.0 * torch.sigmoid(bias.contiguous())


def position_offsets() -> torch.Tensor:
    """All offsets between two tokens of a window, on a logarithmic scale: (1, 13, 13, 2)."""
    steps = torch.arange(1 - WINDOW, WINDOW, dtype=torch.float32) * (8 / (WINDOW - 1))
    steps = steps.sign() * torch.log2(steps.abs() + 1) / 3
    return torch.stack(torch.meshgrid(steps, steps, indexing="ij"), -1)[None]


def position_index() -> torch.Tensor:
    """Which offset lies between two tokens: (49, 49)."""
    token = torch.arange(WINDOW * WINDOW)
    row, column = token // WINDOW, token % WINDOW
    down, right = row[:, None] - row + WINDOW - 1, column[:, None] - column + WINDOW - 1
    return down * (2 * WINDOW - 1) + right


def shift_mask(side: int, shift: int) -> torch.Tensor:
    """-100 between tokens that only the cyclic shift brought together: (windows, 49, 49)."""
    place = torch.arange(side)
    band = (place >= side - WINDOW).long() + (place >= side - shift).long()
    region = cut((3 * band[:, None] + band)[None, :, :, None])[..., 0]
    return (region[:, None] != region[:, :, None]) * -100.0


def cut(x: torch.Tensor) -> torch.Tensor:
    """(batch, side, side, channels) into windows (batch * windows, 49, channels)."""
    batch, side, _, channels = x.shape
    x = x.view(batch, side // WINDOW, WINDOW, side // WINDOW, WINDOW, channels)
    return x.transpose(2, 3).reshape(-1, WINDOW * WINDOW, channels)


def glue(windows: torch.Tensor, side: int) -> torch.Tensor:
    """The inverse of `cut`."""
    count = side // WINDOW
    x = windows.view(-1, count, count, WINDOW, WINDOW, windows.shape[-1])
    return x.transpose(2, 3).reshape(-1, side, side, windows.shape[-1])


class Block(nn.Module):
    """Window attention, then an MLP; each normalised after and added to its input."""

    mask: torch.Tensor | None

    def __init__(self, channels: int, side: int, heads: int, shift: int) -> None:
        super().__init__()
        self.side = side
        self.shift = shift
        self.attention = Attention(channels, heads)
        self.norm1 = nn.LayerNorm(channels)
        self.widen = nn.Linear(channels, MLP_RATIO * channels)
        self.narrow = nn.Linear(MLP_RATIO * channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.register_buffer("mask", shift_mask(side, shift) if shift else None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, side * side, channels), same shape out."""
        y = x.view(-1, self.side, self.side, x.shape[-1])
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = glue(self.attention(cut(y), self.mask), self.side)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + self.norm1(y.flatten(1, 2))
        branch: torch.Tensor = self.norm2(self.narrow(nn.functional.gelu(self.widen(x))))
        return x + branch


class Merging(nn.Module):
    """Each 2 x 2 tokens become one of twice the channels: concatenation, a product, normalisation."""

    def __init__(self, channels: int, side: int) -> None:
        super().__init__()
        self.side = side
        self.reduce = nn.Linear(4 * channels, 2 * channels, bias=False)
        self.norm = nn.LayerNorm(2 * channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, side * side, channels) to (batch, side * side / 4, 2 * channels)."""
        x = x.view(-1, self.side, self.side, x.shape[-1])
        phases = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        merged: torch.Tensor = self.norm(self.reduce(torch.cat(phases, -1).flatten(1, 2)))
        return merged


class Model(nn.Module):
    """Patch embedding, stages of blocks with merging between them, mean over tokens, classifier."""

    def __init__(self, classes: int, embed: int, depths: tuple[int, ...], heads: tuple[int, ...]) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, embed, PATCH, PATCH)
        self.embed_norm = nn.LayerNorm(embed)
        layers: list[nn.Module] = []
        side, channels = IMAGE // PATCH, embed
        for stage, (depth, head_count) in enumerate(zip(depths, heads, strict=True)):
            if stage:
                layers.append(Merging(channels, side))
                side, channels = side // 2, 2 * channels
            for index in range(depth):
                shift = WINDOW // 2 if index % 2 and side > WINDOW else 0
                layers.append(Block(channels, side, head_count, shift))
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(channels)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (batch, 3, h, w) to logits (batch, classes)."""
        x = self.embed_norm(self.embed(x).flatten(2).transpose(1, 2))
        logits: torch.Tensor = self.classifier(self.norm(self.layers(x)).mean(1))
        return logits


def initialise(model: nn.Module) -> None:
    """He weights; biases, scales and offsets that differ per head or channel; attention's share grows in a stage."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear | Projection):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.weight[0].numel()))
        if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
            nn.init.normal_(module.bias, 0.0, 0.1)
        if isinstance(module, Projection):
            nn.init.normal_(module.query_bias, 0.0, 0.2)
            nn.init.normal_(module.value_bias, 0.0, 0.2)
        if isinstance(module, nn.LayerNorm):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0.0, 0.2)
    for module in model.modules():
        if isinstance(module, Attention):
            nn.init.normal_(module.log_scale, math.log(10.0), 0.3)
            nn.init.normal_(module.position_out.weight, 0.0, BIAS_GAIN / math.sqrt(POSITION_WIDTH))
    before = 0
    for layer in model.get_submodule("layers").children():
        if isinstance(layer, Block):
            layer.norm1.weight.mul_(GROWTH**before)
            layer.norm1.bias.mul_(GROWTH**before)
        before = before + 1 if isinstance(layer, Block) else 0


def draw_images(count: int) -> torch.Tensor:
    """Noise whose contrast and mean differ per image and channel, so that pooled features differ too."""
    contrast = 0.5 + torch.rand(count, 3, 1, 1)
    brightness = torch.randn(count, 3, 1, 1)
    return torch.randn(count, 3, IMAGE, IMAGE) * contrast + brightness


def get_inputs() -> list[torch.Tensor]:
    """One batch of images."""
    return [draw_images(BATCH)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches: the number of images may vary."""
    return [[draw_images(count)] for count in (1, 3)]


def get_init_inputs() -> list[object]:
    """The number of classes, the embedding's width, each stage's blocks and heads."""
    return [CLASSES, EMBED, DEPTHS, HEADS]


def window_area(side: int, shift: int) -> int:
    """The sum over unmasked regions of their squared number of tokens, which is what attention costs a channel."""
    whole = side // WINDOW * WINDOW * WINDOW
    along = whole - WINDOW * WINDOW + shift * shift + (WINDOW - shift) ** 2 if shift else whole
    return along * along


def least_operations() -> int:
    """Of the products that depend on the input; masked scores and the position bias need none."""
    side, channels = IMAGE // PATCH, EMBED
    total = side * side * 3 * PATCH * PATCH * channels
    for stage, depth in enumerate(DEPTHS):
        if stage:
            side, channels = side // 2, 2 * channels
            total += side * side * 2 * channels * channels
        for index in range(depth):
            shift = WINDOW // 2 if index % 2 and side > WINDOW else 0
            total += 2 * window_area(side, shift) * channels + (4 + 2 * MLP_RATIO) * (side * channels) ** 2
    return 2 * BATCH * (total + channels * CLASSES)


LEAST_BYTES = 4 * BATCH * (3 * IMAGE * IMAGE + CLASSES)  # images and logits; half-precision weights nearly fit a cache
LEAST_OPERATIONS = least_operations()
