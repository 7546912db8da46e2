"""Swin-MLP tiny for 1000 classes on ten images of 224 x 224 (after Swin, Liu et al. 2021, arXiv:2103.14030).

Stresses: windows. Each block cuts its tokens into windows of 7 x 7 (shifted by padding in every other block), mixes the
49 tokens of a window by one matrix a head, written as a grouped 1-D convolution, and glues them together again: copies
between layouts around small batched products. Then wide products (MLP), layer normalisation and GELU.
Changed against the published task: He weights, random scales and offsets in layer normalisation. There, the output's
standard deviation is 0.1. Shapes, layers and arithmetic are the same, and so is the cost.
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
CLASSES = 1000
SMALL = {"BATCH": 2, "IMAGE": 56, "EMBED": 32, "DEPTHS": (2, 2), "HEADS": (2, 4), "CLASSES": 100}


class Block(nn.Module):
    """Token mixing within windows, then an MLP; each normalised before and added to its input."""

    def __init__(self, channels: int, side: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.side = side
        self.heads = heads
        self.window = window
        self.pad = (window - shift, shift) if shift else (0, 0)
        self.norm1 = nn.LayerNorm(channels)
        tokens = heads * window * window
        self.mix = nn.Conv1d(tokens, tokens, 1, groups=heads)
        self.norm2 = nn.LayerNorm(channels)
        self.widen = nn.Linear(channels, MLP_RATIO * channels)
        self.narrow = nn.Linear(MLP_RATIO * channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, side * side, channels), same shape out."""
        y = self.norm1(x).view(-1, self.side, self.side, x.shape[-1])
        x = x + self._mixed(y).flatten(1, 2)
        y = nn.functional.gelu(self.widen(self.norm2(x)))
        branch: torch.Tensor = self.narrow(y)
        return x + branch

    def _mixed(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, side, side, channels), same shape out: each head has its own 49 x 49 matrix for all windows."""
        before, after = self.pad
        x = nn.functional.pad(x, (0, 0, before, after, before, after))
        batch, padded, _, channels = x.shape
        count, window = padded // self.window, self.window
        x = x.view(batch, count, window, count, window, channels).transpose(2, 3)
        x = x.reshape(-1, window * window, self.heads, channels // self.heads).transpose(1, 2)
        x = self.mix(x.reshape(-1, self.heads * window * window, channels // self.heads))
        x = x.view(-1, self.heads, window * window, channels // self.heads).transpose(1, 2)
        x = x.reshape(batch, count, count, window, window, channels).transpose(2, 3)
        x = x.reshape(batch, padded, padded, channels)
        return x[:, before : padded - after, before : padded - after]


class Merging(nn.Module):
    """Each 2 x 2 tokens become one of twice the channels: concatenation, normalisation, a product."""

    def __init__(self, channels: int, side: int) -> None:
        super().__init__()
        self.side = side
        self.norm = nn.LayerNorm(4 * channels)
        self.reduce = nn.Linear(4 * channels, 2 * channels, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, side * side, channels) to (batch, side * side / 4, 2 * channels)."""
        x = x.view(-1, self.side, self.side, x.shape[-1])
        phases = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        merged: torch.Tensor = self.reduce(self.norm(torch.cat(phases, -1).flatten(1, 2)))
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
                layers.append(Block(channels, side, head_count, WINDOW, shift))
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(channels)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (batch, 3, h, w) to logits (batch, classes)."""
        x = self.embed_norm(self.embed(x).flatten(2).transpose(1, 2))
        logits: torch.Tensor = self.classifier(self.norm(self.layers(x)).mean(1))
        return logits


def initialise(model: nn.Module) -> None:
    """He weights; scales and offsets of layer normalisation that differ per channel."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Conv1d | nn.Linear):
            nn.init.normal_(module.weight, 0.0, math.sqrt(2.0 / module.weight[0].numel()))
            if module.bias is not None:
                nn.init.normal_(module.bias, 0.0, 0.1)
        elif isinstance(module, nn.LayerNorm):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0.0, 0.2)


def draw_images(count: int) -> torch.Tensor:
    """Standard normal images."""
    return torch.randn(count, 3, IMAGE, IMAGE)


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
    """The sum over windows of their squared number of real tokens, which is what mixing costs a channel."""
    whole = side // WINDOW * WINDOW * WINDOW
    along = whole - WINDOW * WINDOW + shift * shift + (WINDOW - shift) ** 2 if shift else whole
    return along * along


def least_operations() -> int:
    """Of the products; padded tokens of shifted windows are zeros and need none."""
    side, channels = IMAGE // PATCH, EMBED
    total = side * side * 3 * PATCH * PATCH * channels
    for stage, depth in enumerate(DEPTHS):
        if stage:
            side, channels = side // 2, 2 * channels
            total += side * side * 2 * channels * channels
        for index in range(depth):
            shift = WINDOW // 2 if index % 2 and side > WINDOW else 0
            total += window_area(side, shift) * channels + 2 * MLP_RATIO * (side * channels) ** 2
    return 2 * BATCH * (total + channels * CLASSES)


LEAST_BYTES = 4 * BATCH * (3 * IMAGE * IMAGE + CLASSES)  # images and logits; half-precision weights fit into a cache
LEAST_OPERATIONS = least_operations()
