"""The tasks of the corpus: small enough to be judged in a second, large enough that a fake gain shows.

Knows their sources in KernelBench's format. Does not know the samples.
"""

from __future__ import annotations

from pike.core.errors import UserError
from pike.core.task import Task, TaskKind

_HEAD = """import torch
from torch import nn
from torch.nn import functional as F

BATCH = 64
"""

_MLP = """

def activation(x):
    return F.gelu(x)


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)

    def forward(self, x):
        return self.second(activation(self.first(self.norm(x))))


def get_inputs():
    return [torch.randn(BATCH, 256)]


def get_init_inputs():
    return [256, 512]
"""

_TINY = _MLP.replace("return self.second(", "return 1e-3 * self.second(")

_CONV = """

class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(8, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x))))


def get_inputs():
    return [torch.randn(BATCH // 16, 8, 32, 32)]


def get_init_inputs():
    return [24]
"""

_ROUTER = """

class Model(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.gate = nn.Linear(width, experts, bias=False)

    def forward(self, x, temperature):
        scores = self.gate(torch.tanh(self.inner(x))) * temperature
        chances = torch.softmax(scores, dim=-1)
        weights, experts = torch.topk(chances, 4, dim=-1)
        return weights, experts


def get_inputs():
    return {"x": torch.randn(4 * BATCH, 256), "temperature": torch.rand(1) + 4.0}


def get_init_inputs():
    return [256, 64]
"""

_RAGGED = """

class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first = nn.Linear(width, hidden, bias=False)
        self.second = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def get_inputs():
    scale = torch.where(torch.rand(2 * BATCH, 1) < 0.75, 1e-4, 1.0)
    return [torch.randn(2 * BATCH, 256) * scale]


def get_init_inputs():
    return [256, 512]
"""

_CONSTANT = """

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        largest = self.linear(x).amax(1, keepdim=True)
        return F.gelu(largest - largest.mean(1, keepdim=True))


def get_inputs():
    return [torch.randn(BATCH, 256)]


def get_init_inputs():
    return [256]
"""

_SOURCES = {
    "mlp": ("LayerNorm, linear, GELU, linear", _HEAD + _MLP),
    "tiny": ("the same with outputs below 1e-2", _HEAD + _TINY),
    "conv": ("two convolutions with batch normalisation between them", _HEAD + _CONV),
    "router": ("keyword inputs; weights and integer indices as outputs", _HEAD + _ROUTER),
    "constant": ("always zero: a mean over one element is taken from it", _HEAD + _CONSTANT),
    "ragged": ("most rows of the input are ten thousand times smaller than the others", _HEAD + _RAGGED),
}
TASKS = tuple(_SOURCES)
"""Their names."""
_GPU_BATCH = 4096


def task_of(name: str, device: str) -> Task:
    """One task of the corpus, with a larger batch on a GPU.

    Raises:
        UserError: there is no such task.
    """
    if name not in _SOURCES:
        raise UserError(f"Unknown corpus task '{name}'; known: {', '.join(TASKS)}")
    words, source = _SOURCES[name]
    return Task(f"corpus-{name}", words, TaskKind.SOURCE, _sized(source, device), f"corpus_{name}.py")


def original_of(name: str, device: str) -> str:
    """The task's text with its model called `Original`, for samples to build on."""
    return task_of(name, device).source.replace("class Model(", "class Original(")


def _sized(source: str, device: str) -> str:
    return source.replace("BATCH = 64", f"BATCH = {_GPU_BATCH}") if device.startswith("cuda") else source
