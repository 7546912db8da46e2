"""Small module trees built by chance from a number: kinds of inputs, layers, outputs, calls and habits, mixed.

Knows what models are made of. Does not know what is done with them (`models_soak`). The same number gives the same
model with the same version of PyTorch.
"""

from __future__ import annotations

import random
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

Pair = namedtuple("Pair", ["first", "second"])
BATCHES, WIDTHS = (1, 2, 3, 5, 7, 16, 33), (8, 12, 16, 24, 32)


class Residual(nn.Module):
    """Adds what a module does."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the same shape."""
        return x + self.inner(x)


class First(nn.Module):
    """The first output of a module: of a recurrence or an attention."""

    def __init__(self, inner: nn.Module, times: int) -> None:
        super().__init__()
        self.inner, self.times = inner, times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the same shape."""
        return self.inner(*[x] * self.times)[0]


class Experts(nn.Module):
    """A mixture of experts whose rows depend on values."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.SiLU()) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the same shape."""
        rows = x.reshape(-1, x.shape[-1])
        weights, chosen = self.gate(rows).softmax(-1).topk(2)
        mask, out = functional.one_hot(chosen, len(self.experts)).permute(2, 1, 0), torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            place, token = torch.where(mask[number])
            out.index_add_(0, token, expert(rows[token]) * weights[token, place, None])
        return out.view_as(x)


class Steps(nn.Module):
    """A cell that is called step by step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the same shape."""
        state, states = x.new_zeros(len(x), x.shape[-1]), []
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
            states.append(state)
        return torch.stack(states, 1)


class Habit(nn.Module):
    """A module with one of the habits that models have beside computing."""

    def __init__(self, inner: nn.Module, habit: str) -> None:
        super().__init__()
        self.inner, self.habit, self.cache = inner, habit, {}
        self.register_buffer("calls", torch.zeros(()))
        if habit == "hook":
            inner.register_forward_hook(lambda _module, _args, output: output * 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the shape of the inner module's output."""
        match self.habit:
            case "counts":
                self.calls += 1
            case "draws":
                x = x + torch.rand_like(x)
            case "remembers":
                self.cache.setdefault("scale", torch.full((), 2.0))
                x = x * self.cache["scale"]
            case "branches":
                x = x * 2 if float(x.sum()) > 0 else x - 1
            case "averages":
                self.calls.mul_(0.9).add_(x.mean().detach(), alpha=0.1)
                x = x + self.calls
            case "in place":
                x = x.clone().clamp_(-2, 2).add_(1)
            case "numpy":
                x = x + float(x.detach().numpy().std())
            case "raises":
                raise KeyError("this model never works")
            case "autocast":
                with torch.autocast("cpu", torch.bfloat16):
                    return self.inner(x).float()
        return self.inner(x)


HABITS = ("hook", "counts", "remembers", "in place", "branches", "averages", "numpy", "autocast", "draws", "raises")


class Whole(nn.Module):
    """A body with a way to be called and a way to answer."""

    def __init__(self, body: nn.Module, answer: str, tokens: int, tied: bool, width: int) -> None:
        super().__init__()
        self.body, self.answer = body, answer
        self.embedding = nn.Embedding(tokens, width) if tokens else None
        self.head = nn.Linear(width, tokens, bias=False) if tied else None
        if self.head is not None and self.embedding is not None:
            self.head.weight = self.embedding.weight

    def forward(self, x: Any, scale: float = 1.0, mask: torch.Tensor | None = None) -> Any:
        """In the form that `answer` names."""
        y = self.body(x if self.embedding is None else self.embedding(x)) * scale
        y = y if mask is None else y.masked_fill(mask, 0.0)
        y = y if self.head is None else self.head(y)
        match self.answer:
            case "dict":
                return {"out": y, "nothing": None, "number": 3}
            case "list":
                return [y, (y.relu(), None)]
            case "pair":
                return Pair(y, y.argmax(-1))
            case "output":
                from transformers.modeling_outputs import BaseModelOutput

                return BaseModelOutput(last_hidden_state=y, hidden_states=(y, y.tanh()))
            case "views":
                return y, y.transpose(0, -1), y[0]
            case "chosen":
                return y[y.flatten(1).sum(1) > 0]
            case "number":
                return y, y.mean().item()
            case "none":
                return None
        return y


ANSWERS = ("tensor", "tensor", "tensor", "dict", "list", "pair", "output", "views", "chosen", "number", "none")


def images(chance: random.Random, width: int) -> nn.Module:
    """A layer from (N, width, height, width) to the same."""
    return chance.choice(
        (
            lambda: Residual(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())),
            lambda: nn.Conv2d(width, width, 3, padding=1, groups=width),
            lambda: nn.Sequential(nn.Conv2d(width, 2 * width, 1), nn.GLU(1), nn.GroupNorm(4, width)),
            lambda: nn.Sequential(nn.MaxPool2d(2, ceil_mode=True), nn.Upsample(scale_factor=2), nn.Hardswish()),
            lambda: nn.ConvTranspose2d(width, width, 3, padding=1),
            lambda: parametrizations.weight_norm(nn.Conv2d(width, width, 3, padding=1, padding_mode="reflect")),
            lambda: nn.Sequential(
                nn.InstanceNorm2d(width, affine=True), nn.PixelShuffle(2), nn.Conv2d(width // 4, width, 2, 2)
            ),
        )
    )()


def sequences(chance: random.Random, width: int) -> nn.Module:
    """A layer from (N, steps, width) to the same."""
    heads = chance.choice((1, 2, 4))
    return chance.choice(
        (
            lambda: Residual(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())),
            lambda: nn.TransformerEncoderLayer(
                width, heads, 2 * width, batch_first=True, norm_first=chance.random() < 0.5
            ),
            lambda: First(nn.MultiheadAttention(width, heads, batch_first=True), 3),
            lambda: First(nn.LSTM(width, width, chance.choice((1, 2)), batch_first=True), 1),
            lambda: First(nn.GRU(width, width // 2, bidirectional=True, batch_first=True), 1),
            lambda: Residual(Experts(width, chance.choice((3, 4)))),
            lambda: Steps(width),
            lambda: nn.Sequential(nn.RMSNorm(width), parametrizations.spectral_norm(nn.Linear(width, width))),
        )
    )()


def vectors(chance: random.Random, width: int) -> nn.Module:
    """A layer from (N, width) to the same."""
    return chance.choice(
        (
            lambda: nn.Sequential(nn.Linear(width, width), nn.ReLU()),
            lambda: nn.Sequential(nn.BatchNorm1d(width), nn.Dropout(0.3), nn.Linear(width, width), nn.Softmax(-1)),
            lambda: Residual(Experts(width, 3)),
            lambda: parametrizations.orthogonal(nn.Linear(width, width)),
            lambda: torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(width, width)), {nn.Linear}),
            lambda: nn.utils.weight_norm(nn.Linear(width, width)),
            lambda: torch.jit.script(nn.Sequential(nn.Linear(width, width), nn.Tanh())),
        )
    )()


def make(number: int) -> tuple[nn.Module, Any]:
    """The model of a number in eval mode, and the inputs of one call: a tuple, a dict, or a function."""
    chance = random.Random(number)
    torch.manual_seed(number)
    batch, width, kind = (
        chance.choice(BATCHES),
        chance.choice(WIDTHS),
        chance.choice(("image", "sequence", "vector", "tokens")),
    )
    layer: Callable[[random.Random, int], nn.Module] = {"image": images, "vector": vectors}.get(kind, sequences)
    body: nn.Module = nn.Sequential(*(layer(chance, width) for _ in range(chance.randint(1, 4))))
    if chance.random() < 0.4:
        body = Habit(body, chance.choice(HABITS))
    tokens = 50 if kind == "tokens" else 0
    model = Whole(body, chance.choice(ANSWERS), tokens, bool(tokens) and chance.random() < 0.5, width).eval()
    steps, side = chance.choice((1, 4, 9, 21)), chance.choice((4, 6, 14))

    def draw() -> torch.Tensor:
        if tokens:
            return torch.randint(tokens, (batch, steps))
        shape = {"image": (batch, width, side, side), "vector": (batch, width)}.get(kind, (batch, steps, width))
        return torch.randn(shape)

    call = chance.choice(("plain", "plain", "keywords", "drawn", "number"))
    inputs: Any = {
        "plain": (draw(),),
        "keywords": {"scale": 0.5, "x": draw()},
        "drawn": lambda: (draw(),),
        "number": (draw(), 2.0),
    }[call]
    if chance.random() < 0.05:
        model = model.to("meta")
    return (model.double() if chance.random() < 0.05 else model), inputs
