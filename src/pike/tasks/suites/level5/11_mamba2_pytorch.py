"""A language model of 8 selective state-space layers (after Mamba, Gu and Dao 2023, arXiv:2312.00752), float32.

Stresses: 8 x 128 steps of a recurrence, one after another on small tensors, so that eager PyTorch spends its time
launching kernels; the inputs of all steps are written out (17 MB each). Despite the published name this is no Mamba-2:
the state is diagonal in each channel, and the decay is the product of exp(-A) and the step size, as published.
Changed against the published task: weights at which every part matters and decays mostly between 0.1 and 0.7, so that
states reach back further than eight tokens and do not explode. There, states contribute a twenty-fifth of the stream
and the step sizes nothing visible. Shapes, layers and arithmetic are the same.
"""

import math

import torch
from torch import nn

BATCH = 2
TOKENS = 128
VOCABULARY = 16384
WIDTH = 1024
LAYERS = 8
STATE = 16
RANK = 64
SMALL = {"BATCH": 2, "TOKENS": 24, "VOCABULARY": 256, "WIDTH": 64, "LAYERS": 2, "STATE": 8, "RANK": 16}
KERNEL = 4


class Norm(nn.Module):
    """Root-mean-square norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to the same shape."""
        length: torch.Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return self.weight * x / (length + 1e-5) * math.sqrt(x.size(-1))


class Mamba(nn.Module):
    """A convolution over four tokens and a recurrence with a state of its own in every channel, behind a gate."""

    def __init__(self, width: int, state: int, rank: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, 2 * width, bias=False)
        self.convolution = nn.Conv1d(width, width, KERNEL, padding=KERNEL - 1, groups=width)
        self.write = nn.Linear(width, state, bias=False)
        self.read = nn.Linear(width, state, bias=False)
        self.step_down = nn.Linear(width, rank, bias=False)
        self.step_up = nn.Linear(rank, width, bias=False)
        self.A = nn.Parameter(torch.ones(width, state))
        self.D = nn.Parameter(torch.ones(width))
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        a, gate = self.project(z).chunk(2, dim=-1)
        a = self.convolution(a.transpose(1, 2))[..., : z.size(1)].transpose(1, 2)
        a = nn.functional.silu(a)
        step = nn.functional.softplus(self.D + self.step_up(self.step_down(a)))
        states = self.states(step, self.write(a)[:, :, None] * (step * a)[..., None])
        y = (states @ self.read(a)[..., None]).squeeze(-1) + self.D * a
        branch: torch.Tensor = self.out(y * nn.functional.silu(gate))
        return branch

    def states(self, step: torch.Tensor, drive: torch.Tensor) -> torch.Tensor:
        """Step sizes (batch, tokens, width) and what is written to the states after each token, both of them
        (batch, tokens, width, state)."""
        decay = torch.exp(-self.A) * step[..., None]
        state = torch.zeros_like(drive[:, 0])
        states = []
        for token in range(drive.size(1)):
            state = decay[:, token] * state + drive[:, token]
            states.append(state)
        return torch.stack(states, dim=1)


class Model(nn.Module):
    """Embedding, layers behind norms, logits of every position."""

    def __init__(self, vocabulary: int, width: int, layers: int, state: int, rank: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.norms = nn.ModuleList(Norm(width) for _ in range(layers))
        self.layers = nn.ModuleList(Mamba(width, state, rank) for _ in range(layers))
        self.output = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, tokens) to logits (batch, tokens, vocabulary)."""
        x = self.embedding(tokens)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x))
        logits: torch.Tensor = self.output(x)
        return logits


def initialise(model: nn.Module) -> None:
    """Weights that keep values of order one, and states that remember without exploding."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            gain = 0.8 if name.endswith("step_up") else 1.0
            nn.init.normal_(module.weight, 0.0, gain / math.sqrt(module.in_features))
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight)
        elif isinstance(module, nn.Conv1d):
            nn.init.normal_(module.weight, 0.0, 0.5)
            if module.bias is not None:
                nn.init.normal_(module.bias, 0.0, 0.1)
        elif isinstance(module, Norm):
            nn.init.normal_(module.weight, 1.0, 0.2)
        elif isinstance(module, Mamba):
            module.A.uniform_(0.2, 0.5).log_().neg_()
            module.D.uniform_(-0.5, 1.0)


def draw(batch: int, tokens: int) -> list[torch.Tensor]:
    """Sequences of random tokens."""
    return [torch.randint(VOCABULARY, (batch, tokens))]


def get_inputs() -> list[torch.Tensor]:
    """One batch of sequences."""
    return draw(BATCH, TOKENS)


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches and lengths."""
    return [draw(1, 1), draw(3, 37)]


def get_init_inputs() -> list[int]:
    """Vocabulary, width, layers, size of a channel's state, rank of the step size."""
    return [VOCABULARY, WIDTH, LAYERS, STATE, RANK]


LAYER_WEIGHTS = 3 * WIDTH**2 + 2 * WIDTH * (STATE + RANK)
WEIGHTS = LAYERS * LAYER_WEIGHTS + WIDTH * VOCABULARY
LEAST_BYTES = 4 * (WEIGHTS + BATCH * TOKENS * VOCABULARY)  # weights and logits
LEAST_OPERATIONS = 2 * BATCH * TOKENS * WEIGHTS
