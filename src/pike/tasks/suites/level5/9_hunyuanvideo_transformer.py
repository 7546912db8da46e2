"""HunyuanVideo's diffusion transformer, 20 double and 40 single blocks, one latent video, bfloat16 (arXiv:2412.03603).

Stresses: 11 GB of bfloat16 weights for 778 tokens (768 of the video, 10 of a prompt), two streams that meet in
attention and then become one, norms of queries and keys, rotary positions, modulation by time step and prompt.
Changed against the published task: attention is PyTorch's own (there flash_attn's, and diffusers is needed; its mask is
all ones), time steps differ, rotary positions turn pairs (there the two of a pair get different angles), and weights
are such that blocks, gates, positions and the prompt reach the output (there all blocks together change it by 2 %);
the prompt's tokens are returned too, being so few that the video hardly shows what happens to them. Same layers and
arithmetic (5.0 TFLOP).
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 1
FRAMES = 3
SIDE = 32
CHANNELS = 16
PATCH = 2  # in a frame
TEXT = 10  # tokens
TEXT_WIDTH = 1024
DOUBLE = 20
SINGLE = 40
REFINING = 2
WIDTH = 2048
HEADS = 16
FREQUENCIES = 128  # of the time step
THETA = 10000.0
CACHE = 50_000_000  # bytes of weights that a device may keep near
DTYPE = torch.bfloat16
SMALL = {
    "SIDE": 8,
    "TEXT_WIDTH": 64,
    "DOUBLE": 2,
    "SINGLE": 2,
    "REFINING": 1,
    "WIDTH": 128,
    "HEADS": 4,
    "FREQUENCIES": 32,
}
TOKENS = FRAMES * (SIDE // PATCH) ** 2


class Linear(nn.Linear):
    """In DTYPE, without a first filling that `initialise` would overwrite: that takes minutes."""

    def __init__(self, size_in: int, size_out: int) -> None:
        super().__init__(size_in, size_out, dtype=DTYPE)

    def reset_parameters(self) -> None:
        """Leaves the weights as they lie in memory."""


def two_layers(size_in: int, width: int) -> nn.Sequential:
    """An embedding of a condition."""
    return nn.Sequential(Linear(size_in, width), nn.SiLU(), Linear(width, width))


def modulated(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Layer norm without weights, then scale and shift; x is (batch, tokens, width), the others (batch, 1, width)."""
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift


def heads_of(qkv: torch.Tensor) -> torch.Tensor:
    """(batch, tokens, 3 * width) to queries, keys and values (3, batch, heads, tokens, size)."""
    return qkv.view(*qkv.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """(batch, heads, tokens, size) each, to (batch, tokens, width)."""
    return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn neighbouring pairs of as many first tokens as the tables (tokens, size / 2) have, in their precision."""
    turning, rest = torch.split(x, [cos.shape[0], x.shape[-2] - cos.shape[0]], -2)
    even, odd = turning[..., ::2].to(cos.dtype), turning[..., 1::2].to(cos.dtype)
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
    return torch.cat((turned.to(x.dtype), rest), -2)


class Refiner(nn.Module):
    """One block over the prompt's tokens: attention and a network, gated by time step and mean token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.modulation = Linear(width, 2 * width)
        self.norm1 = nn.LayerNorm(width, eps=1e-6, dtype=DTYPE)
        self.qkv = Linear(width, 3 * width)
        self.projection = Linear(width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-6, dtype=DTYPE)
        self.mlp = nn.Sequential(Linear(width, 4 * width), nn.SiLU(), Linear(4 * width, width))

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape; `condition` is (batch, width)."""
        gate, second_gate = self.modulation(condition)[:, None].chunk(2, -1)
        query, key, value = heads_of(self.qkv(self.norm1(x)))
        x = x + gate * self.projection(attend(query, key, value))
        out: torch.Tensor = x + second_gate * self.mlp(self.norm2(x))
        return out


class Stream(nn.Module):
    """One stream's layers in a double block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.modulation = Linear(width, 6 * width)
        self.qkv = Linear(width, 3 * width)
        self.query_norm = nn.RMSNorm(width // HEADS, eps=1e-6, dtype=DTYPE)
        self.key_norm = nn.RMSNorm(width // HEADS, eps=1e-6, dtype=DTYPE)
        self.projection = Linear(width, width)
        self.mlp = nn.Sequential(Linear(width, 4 * width), nn.GELU(approximate="tanh"), Linear(4 * width, width))

    def before(self, x: torch.Tensor, condition: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Queries, keys and values (3, batch, heads, tokens, size), and what modulates the rest."""
        shift, scale, *rest = self.modulation(condition)[:, None].chunk(6, -1)
        query, key, value = heads_of(self.qkv(modulated(x, shift, scale)))
        return torch.stack((self.query_norm(query), self.key_norm(key), value)), rest

    def after(self, x: torch.Tensor, mixed: torch.Tensor, rest: list[torch.Tensor]) -> torch.Tensor:
        """The stream with what attention found (batch, tokens, width) and its network, both gated."""
        gate, shift, scale, second_gate = rest
        x = x + gate * self.projection(mixed)
        out: torch.Tensor = x + second_gate * self.mlp(modulated(x, shift, scale))
        return out


class Double(nn.Module):
    """Two streams with weights of their own, one attention over the tokens of both."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.video = Stream(width)
        self.text = Stream(width)

    def forward(
        self, video: torch.Tensor, text: torch.Tensor, condition: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Both streams (batch, tokens, width), to the same shapes."""
        of_video, video_rest = self.video.before(video, condition)
        of_text, text_rest = self.text.before(text, condition)
        query, key, value = torch.cat((of_video, of_text), -2)
        mixed = attend(rotate(query, cos, sin), rotate(key, cos, sin), value)
        count = video.shape[1]
        return self.video.after(video, mixed[:, :count], video_rest), self.text.after(text, mixed[:, count:], text_rest)


class Single(nn.Module):
    """Attention and a network side by side over all tokens, with joint layers at both ends."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.modulation = Linear(width, 3 * width)
        self.inward = Linear(width, 7 * width)
        self.query_norm = nn.RMSNorm(width // HEADS, eps=1e-6, dtype=DTYPE)
        self.key_norm = nn.RMSNorm(width // HEADS, eps=1e-6, dtype=DTYPE)
        self.outward = Linear(5 * width, width)

    def forward(self, x: torch.Tensor, condition: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape, the video's tokens first."""
        width = x.shape[-1]
        shift, scale, gate = self.modulation(condition)[:, None].chunk(3, -1)
        qkv, hidden = torch.split(self.inward(modulated(x, shift, scale)), [3 * width, 4 * width], -1)
        query, key, value = heads_of(qkv)
        query, key = rotate(self.query_norm(query), cos, sin), rotate(self.key_norm(key), cos, sin)
        both = torch.cat((attend(query, key, value), F.gelu(hidden, approximate="tanh")), -1)
        out: torch.Tensor = x + gate * self.outward(both)
        return out


class Model(nn.Module):
    """Patches, refined prompt, double blocks, single blocks, a last modulated layer."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, width: int, double: int, single: int) -> None:
        super().__init__()
        self.patches = nn.Conv3d(CHANNELS, width, (1, PATCH, PATCH), (1, PATCH, PATCH), dtype=DTYPE)
        self.time = two_layers(2 * FREQUENCIES, width)
        self.prompt = two_layers(TEXT_WIDTH, width)
        self.text = Linear(TEXT_WIDTH, width)
        self.text_time = two_layers(2 * FREQUENCIES, width)
        self.text_mean = two_layers(TEXT_WIDTH, width)
        self.refiners = nn.ModuleList(Refiner(width) for _ in range(REFINING))
        self.double_blocks = nn.ModuleList(Double(width) for _ in range(double))
        self.single_blocks = nn.ModuleList(Single(width) for _ in range(single))
        self.modulation = Linear(width, 2 * width)
        self.pixels = Linear(width, PATCH * PATCH * CHANNELS)
        self.register_buffer("cos", torch.zeros(TOKENS, width // HEADS // 2))
        self.register_buffer("sin", torch.zeros(TOKENS, width // HEADS // 2))

    def forward(
        self, video: torch.Tensor, time: torch.Tensor, text: torch.Tensor, prompt: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Velocity of a latent video, in its shape, and the prompt's tokens after all blocks (batch, tokens, width).

        Args:
            video: (batch, channels, frames, side, side).
            time: time steps (batch), float32.
            text: the prompt's tokens (batch, tokens, TEXT_WIDTH).
            prompt: the whole prompt (batch, TEXT_WIDTH).
        """
        waves = self._waves(time).to(video.dtype)
        condition = F.silu(self.time(waves) + self.prompt(prompt))
        refining = F.silu(self.text_time(waves) + self.text_mean(text.mean(1)))
        x, context = self.patches(video).flatten(2).mT, self.text(text)
        for refiner in self.refiners:
            context = refiner(context, refining)
        for block in self.double_blocks:
            x, context = block(x, context, condition, self.cos, self.sin)
        count = x.shape[1]
        x = torch.cat((x, context), 1)
        for block in self.single_blocks:
            x = block(x, condition, self.cos, self.sin)
        shift, scale = self.modulation(condition)[:, None].chunk(2, -1)
        return self._unpatched(self.pixels(modulated(x[:, :count], shift, scale)), video), x[:, count:]

    def _unpatched(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, channels * PATCH * PATCH) to the shape of `like`."""
        batch, channels, frames, height, width = like.shape
        x = x.view(batch, frames, height // PATCH, width // PATCH, channels, PATCH, PATCH)
        return x.permute(0, 4, 1, 2, 5, 3, 6).reshape(like.shape)

    def _waves(self, time: torch.Tensor) -> torch.Tensor:
        """Cosines and sines of the time step (batch, 2 * FREQUENCIES), in at least float32."""
        wide = torch.promote_types(time.dtype, torch.float32)
        index = torch.arange(FREQUENCIES, dtype=wide, device=time.device)
        angles = time.to(wide)[:, None] * torch.exp(-math.log(10000.0) / FREQUENCIES * index)
        return torch.cat((angles.cos(), angles.sin()), -1)


def gain_of(name: str) -> float:
    """How far a layer's weights are from unit gain: videos have a deviation of 10, gates must open."""
    table = {"patches": 0.16, "time.0": 2.0, "time.2": 1.5, "prompt.0": 1.4, "prompt.2": 1.4, "text": 1.0}
    return 0.7 if name.endswith("modulation") else table.get(name.removeprefix("text_"), 1.0)


def initialise(model: nn.Module) -> None:
    """Gains as above, biases that open gates, norm weights that differ and peak attention, the table of positions.

    Shifts are small, since what all tokens share hides whom they attend to after some blocks, and what attention finds
    in a single block counts three times, being an average.
    """
    for name, parameter in model.named_parameters():
        layer, _, kind = name.rpartition(".")
        if layer.endswith("query_norm"):
            nn.init.normal_(parameter, 2.5, 0.3)
        elif "norm" in layer and kind == "weight":
            nn.init.normal_(parameter, 1.0, 0.2)
        elif kind == "bias":
            nn.init.normal_(parameter, 0.0, 0.3 if layer.endswith("modulation") else 0.1)
        else:
            nn.init.normal_(parameter, 0.0, gain_of(layer) * parameter[0].numel() ** -0.5)
    for part in model.modules():
        if isinstance(part, Stream | Single):
            for shifts in (part.modulation.weight, part.modulation.bias):
                shifts.view(-1, 3, WIDTH, *shifts.shape[1:])[:, 0] *= 0.3
        if isinstance(part, Single):
            part.outward.weight[:, :WIDTH] *= 3.0
    tables = dict(model.named_buffers())
    half = tables["cos"].shape[-1]
    frequency = THETA ** -(torch.arange(half, dtype=torch.float32) / half)
    angles = torch.arange(TOKENS, dtype=torch.float32)[:, None] * frequency
    tables["cos"].copy_(angles.cos())
    tables["sin"].copy_(angles.sin())


def draw(batch: int, text: int) -> list[torch.Tensor]:
    """Noisy videos, time steps below 1000 (multiples of 4, exact in bfloat16), tokens of a prompt, the prompt."""
    video = 10 * torch.randn(batch, CHANNELS, FRAMES, SIDE, SIDE)
    tokens, prompt = torch.randn(batch, text, TEXT_WIDTH), torch.randn(batch, TEXT_WIDTH)
    return [video.to(DTYPE), 4.0 * torch.randint(250, (batch,)), tokens.to(DTYPE), prompt.to(DTYPE)]


def get_inputs() -> list[torch.Tensor]:
    """One video."""
    return draw(BATCH, TEXT)


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches and prompts of other lengths."""
    return [draw(1, TEXT + 7), draw(2, 1)]


def get_init_inputs() -> list[object]:
    """Width, double blocks, single blocks."""
    return [WIDTH, DOUBLE, SINGLE]


def least_operations() -> int:
    """Of the blocks' linear layers, without modulation, and of attention."""
    tokens = TOKENS + TEXT
    linear = tokens * 12 * WIDTH * WIDTH * (DOUBLE + SINGLE) - TEXT * 9 * WIDTH * WIDTH
    return 2 * BATCH * (linear + (DOUBLE + SINGLE) * 2 * tokens * tokens * WIDTH)


def least_bytes() -> int:
    """The blocks' weights, less what a device may keep near, and the video in and out."""
    weights = 2 * WIDTH * WIDTH * (36 * DOUBLE + 15 * SINGLE)
    return max(0, weights - CACHE) + 2 * 2 * BATCH * CHANNELS * FRAMES * SIDE * SIDE


LEAST_BYTES = least_bytes()
LEAST_OPERATIONS = least_operations()
