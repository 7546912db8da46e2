"""One level of HunyuanVideo's causal 3-D encoder, eight videos of 8 x 64 x 64 (arXiv:2412.03603).

Stresses: 3 x 3 x 3 convolutions of 64 channels behind replicate padding, group norms, attention over 8192 tokens of 64
numbers in one head that sees its own and earlier frames (137 of 448 GFLOP, 56 % of which are unmasked).
Changed against the published task: the mask is one comparison of frame numbers (there 8192 assignments of slices in
each call, which take most of a GPU's time); He weights, gain 1.75 for queries and keys, 2 for values and the layer
after attention, affine weights that differ. There, attention averages evenly. Same shapes and arithmetic otherwise.
"""

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 8
FRAMES = 8
SIDE = 64
PIXELS = 3
LATENT = 3  # channels, each with a mean and a log variance
WIDTH = 64
GROUPS = 32
SMALL = {"BATCH": 2, "FRAMES": 3, "SIDE": 12, "WIDTH": 32, "GROUPS": 16}


class CausalConv(nn.Conv3d):
    """3 x 3 x 3 over the frame itself and two before; edges are repeated."""

    def __init__(self, channels_in: int, channels: int, stride: int = 1) -> None:
        super().__init__(channels_in, channels, 3, (1, stride, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels_in, frames, h, w) to (batch, channels, frames, h / stride, w / stride)."""
        return super().forward(F.pad(x, (1, 1, 1, 1, 2, 0), mode="replicate"))


class Residual(nn.Module):
    """Two convolutions behind norms, and a residual."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, width, eps=1e-6)
        self.conv1 = CausalConv(width, width)
        self.norm2 = nn.GroupNorm(groups, width, eps=1e-6)
        self.conv2 = CausalConv(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width, frames, h, w) to the same shape."""
        y = self.conv1(F.silu(self.norm1(x)))
        out: torch.Tensor = x + self.conv2(F.silu(self.norm2(y)))
        return out


class Attention(nn.Module):
    """One head over the tokens of all frames; a token sees its own frame and earlier ones."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, width, eps=1e-6)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width, frames, h, w) to the same shape."""
        frames, height, width = x.shape[-3:]
        frame = torch.arange(frames, device=x.device).repeat_interleave(height * width)
        y = self.norm(x).flatten(2).mT[:, None]
        mixed = F.scaled_dot_product_attention(
            self.query(y), self.key(y), self.value(y), attn_mask=frame[:, None] >= frame
        )
        out: torch.Tensor = x + self.output(mixed)[:, 0].mT.reshape(x.shape)
        return out


class Model(nn.Module):
    """Convolution, two residuals, half the side, residual, attention, residual, latent statistics."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self.inward = CausalConv(PIXELS, width)
        self.down = nn.Sequential(Residual(width, groups), Residual(width, groups), CausalConv(width, width, 2))
        self.middle = nn.Sequential(Residual(width, groups), Attention(width, groups), Residual(width, groups))
        self.norm = nn.GroupNorm(groups, width, eps=1e-6)
        self.outward = CausalConv(width, 2 * LATENT)

    def forward(self, video: torch.Tensor) -> torch.Tensor:
        """(batch, 3, frames, side, side) to (batch, 6, frames, side / 2, side / 2)."""
        x = self.middle(self.down(self.inward(video)))
        out: torch.Tensor = self.outward(F.silu(self.norm(x)))
        return out


def initialise(model: nn.Module) -> None:
    """He weights for what follows an activation, unit gain for the rest, more around attention, affine norms."""
    for name, part in model.named_modules():
        if isinstance(part, nn.Conv3d | nn.Linear):
            last = name.rpartition(".")[2]
            gain = {"query": 1.75, "key": 1.75, "value": 2.0, "output": 2.0, "inward": 1.0}.get(last, 2**0.5)
            nn.init.normal_(part.weight, 0.0, gain * part.weight[0].numel() ** -0.5)
            assert part.bias is not None
            nn.init.normal_(part.bias, 0.0, 0.1)
        elif isinstance(part, nn.GroupNorm):
            nn.init.normal_(part.weight, 1.0, 0.2)
            nn.init.normal_(part.bias, 0.0, 0.2)


def draw(batch: int) -> list[torch.Tensor]:
    """Videos of noise."""
    return [torch.randn(batch, PIXELS, FRAMES, SIDE, SIDE)]


def get_inputs() -> list[torch.Tensor]:
    """One batch."""
    return draw(BATCH)


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches."""
    return [draw(1), draw(3)]


def get_init_inputs() -> list[object]:
    """Channels and groups of the norms."""
    return [WIDTH, GROUPS]


def least_operations() -> int:
    """A fifth of the convolutions' multiplications in a frame (Winograd), and attention within the mask."""
    large, small = FRAMES * SIDE * SIDE, FRAMES * SIDE * SIDE // 4
    square = WIDTH * WIDTH * 27 // 5
    convolutions = large * (4 * square + PIXELS * WIDTH * 27 // 5)
    convolutions += small * (4 * square + WIDTH * WIDTH * 27 + WIDTH * 2 * LATENT * 27 // 5)
    scores = (SIDE * SIDE // 4) ** 2 * FRAMES * (FRAMES + 1) // 2 * 2 * WIDTH
    return 2 * BATCH * (convolutions + scores)


LEAST_BYTES = BATCH * FRAMES * SIDE * SIDE * (4 * PIXELS + 2 * LATENT)  # videos in, latent statistics out
LEAST_OPERATIONS = least_operations()
