"""The tasks of the corpus: small enough to be judged in a second, large enough to show a fake gain.

Knows their sources in KernelBench's format. Does not know the samples.
"""

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

_RELU = """

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(4096, 1024)]


def get_init_inputs():
    return []
"""

_EXPERTS = """

class Model(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.Parameter(torch.randn(experts, width, width) / width**0.5)

    def forward(self, x):
        choice = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for expert, weight in enumerate(self.experts):
            rows = (choice == expert).nonzero().flatten()
            out[rows] = x[rows] @ weight
        return out


def get_inputs():
    return [torch.randn(2 * BATCH, 128)]


def get_init_inputs():
    return [128, 8]
"""

_TAILS = """

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.usual = nn.Linear(width, width)
        self.rare = nn.Sequential(*(nn.Linear(width, width) for _ in range(6)))

    def forward(self, x):
        return torch.where(x.abs().amax(-1, keepdim=True) > 6.0, self.rare(x), self.usual(x))


def get_inputs():
    return [torch.randn(2 * BATCH, 256)]


def get_init_inputs():
    return [256]
"""


def _linear(body: str, inputs: str = "torch.randn(BATCH, 256)", more: str = "") -> str:
    """The source of a model with one linear layer, by what it does with it."""
    return f"""

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x{more}):
        {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [256]
"""


_LENGTHS = (
    _MLP
    + """

def get_held_out_inputs():
    return [[torch.randn(rows, 256)] for rows in (16, 96)]
"""
)

_SOURCES = {
    "mlp": ("LayerNorm, linear, GELU, linear", _HEAD + _MLP),
    "tiny": ("the same with outputs below 1e-2", _HEAD + _TINY),
    "conv": ("two convolutions with batch normalisation between them", _HEAD + _CONV),
    "router": ("keyword inputs; weights and integer indices as outputs", _HEAD + _ROUTER),
    "constant": ("always zero: a mean over one element is taken from it", _HEAD + _CONSTANT),
    "relu": ("one operation on 16 MB, which takes less time than copying them", _HEAD + _RELU),
    "experts": ("each row goes to the one of eight experts that it chooses", _HEAD + _EXPERTS),
    "tails": ("rows with an element beyond six take a longer way", _HEAD + _TAILS),
    "sixteen": (
        "the tiny one in bfloat16",
        _HEAD
        + _TINY.replace("hidden, width)", "hidden, width)\n        self.bfloat16()").replace(
            "torch.randn(BATCH, 256)", "torch.randn(BATCH, 256).bfloat16()"
        ),
    ),
    "bytes": (
        "a linear layer rounded to bytes",
        _HEAD
        + _linear(
            "return (200 * self.linear(x)).round().clamp(0, 255).to(torch.uint8)", "torch.randn(64 * BATCH, 256)"
        ),
    ),
    "choice": (
        "the largest of 256 scores",
        _HEAD + _linear("return self.linear(x).argmax(-1)", "torch.randn(16 * BATCH, 256)"),
    ),
    "in_place": ("changes its input", _HEAD + _linear("x.relu_()\n        return self.linear(x)")),
    "cache": (
        "writes into a cache that is an input",
        _HEAD
        + _linear(
            "cache[:, 2] = self.linear(x)\n        return cache.mean(1)",
            "torch.randn(BATCH, 256), torch.randn(BATCH, 4, 256)",
            ", cache",
        ),
    ),
    "positive": ("as many outputs as are positive", _HEAD + _linear("y = self.linear(x)\n        return y[y > 0]")),
    "seldom": (
        "more rows on one input in fifteen",
        _HEAD + _linear("return self.linear(x)[: 48 + 16 * int(x[0, 0] > 1.5)]"),
    ),
    "noisy": (
        "draws random numbers in its call",
        _HEAD + _linear("return 0.005 * self.linear(x) + 5e-4 * torch.randn_like(x)"),
    ),
    "masked": (
        "a mask that is all ones",
        _HEAD
        + _linear(
            "return self.linear(x.where(mask, 0.0))",
            "torch.randn(BATCH, 256), torch.ones(BATCH, 256, dtype=torch.bool)",
            ", mask",
        ),
    ),
    "scaled": (
        "a Python number among its inputs",
        _HEAD + _linear("return scale * self.linear(x)", "torch.randn(BATCH, 256), 0.5", ", scale"),
    ),
    "lengths": ("mlp with other numbers of rows held out", _HEAD + _LENGTHS),
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
