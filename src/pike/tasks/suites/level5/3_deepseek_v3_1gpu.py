"""A mixture-of-experts language model of DeepSeek-V2-Lite's shape, ten layers, bfloat16 (arXiv:2405.04434, 2412.19437).

Stresses: 11 GB of weights for 256 tokens, of which an expert sees a dozen; latent attention with its projections
absorbed (queries meet 512 latent numbers per position instead of keys); routing whose sizes depend on the data.
Changed against the published task: attention is causal (there the mask is built and not applied); logits of all
positions are returned, so that the last layer's work counts and errors are measured on 256 rows instead of two (436
to 470 GFLOP); no caches of 16384 positions for 8 samples, since a prefill from position 0 reads none (1.5 GB less);
the router computes in float32, its weights have gain 3 and its result is multiplied by 2, so that several experts of a
token count (there the first has 0.97 of the weight). The embedding has gain 4: otherwise one expert taken for another
through rounding makes later layers choose others too, and errors drown what an expert adds. Weights of norms differ.
No unused float8 kernels. The reference sorts tokens by expert, runs each expert on its slice and asks the host once per
layer for the sizes.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 2
TOKENS = 128
VOCABULARY = 32768
WIDTH = 2048
LAYERS = 10  # the first with a dense network, the others with experts
HEADS = 16
LATENT = 512
PLAIN = 128  # numbers of a head's query and key without positions
ROTARY = 64  # and those with
VALUE = 128
DENSE_HIDDEN = 10944
EXPERT_HIDDEN = 1408
EXPERTS = 64
ACTIVE = 6
SHARED = 2  # experts that see every token, held as one of so many times the width
ROUTE_SCALE = 2.0
THETA, STRETCH, TRAINED_TOKENS = 10000.0, 40.0, 4096  # YaRN, arXiv:2309.00071
SCALE = (PLAIN + ROTARY) ** -0.5 * (0.1 * math.log(STRETCH) + 1.0) ** 2
CACHE = 50_000_000  # bytes of weights that a device may keep near
DTYPE = torch.bfloat16
SMALL = {
    "TOKENS": 24,
    "VOCABULARY": 512,
    "WIDTH": 128,
    "LAYERS": 3,
    "HEADS": 4,
    "LATENT": 32,
    "PLAIN": 32,
    "ROTARY": 16,
    "VALUE": 32,
    "DENSE_HIDDEN": 256,
    "EXPERT_HIDDEN": 64,
    "EXPERTS": 6,
    "ACTIVE": 3,
}


class Linear(nn.Linear):
    """Without bias, and without a first filling that `initialise` would overwrite: that takes minutes."""

    def __init__(self, size_in: int, size_out: int) -> None:
        super().__init__(size_in, size_out, bias=False, dtype=DTYPE)

    def reset_parameters(self) -> None:
        """Leaves the weights as they lie in memory."""


def rotation_angles(positions: int) -> torch.Tensor:
    """YaRN's angles (positions, ROTARY / 2): slow frequencies are divided by STRETCH, fast ones kept."""

    def index_of(turns: int) -> float:
        """The frequency that turns so often over the context of the training."""
        return ROTARY * math.log(TRAINED_TOKENS / (turns * 2 * math.pi)) / (2 * math.log(THETA))

    low, high = max(math.floor(index_of(32)), 0), min(math.ceil(index_of(1)), ROTARY - 1)
    index = torch.arange(ROTARY // 2, dtype=torch.float32)
    frequency = THETA ** (-2 * index / ROTARY)
    slow = ((index - low) / (high - low)).clamp(0, 1)
    frequency = frequency * (1 - slow) + frequency / STRETCH * slow
    return torch.arange(positions, dtype=torch.float32)[:, None] * frequency


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn neighbouring pairs of the last dimension, in the precision of the table; x is (..., tokens, ROTARY)."""
    even, odd = x[..., ::2].to(cos.dtype), x[..., 1::2].to(cos.dtype)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).to(x.dtype)


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """What softmax and routing are computed in."""
    return torch.promote_types(dtype, torch.float32)


class Attention(nn.Module):
    """Multi-head latent attention, absorbed: keys and values are the latent numbers themselves."""

    def __init__(self, width: int, heads: int, latent: int) -> None:
        super().__init__()
        self.heads, self.latent = heads, latent
        self.query = Linear(width, heads * (PLAIN + ROTARY))
        self.down = Linear(width, latent + ROTARY)
        self.norm = nn.RMSNorm(latent, eps=1e-6, dtype=DTYPE)
        self.up = nn.Parameter(torch.zeros(heads, PLAIN + VALUE, latent, dtype=DTYPE))
        self.output = Linear(heads * VALUE, width)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape; cos and sin are (tokens, ROTARY / 2)."""
        batch, tokens, _ = x.shape
        query = self.query(x).view(batch, tokens, self.heads, -1).transpose(1, 2)
        query, query_rotary = torch.split(query, [PLAIN, ROTARY], -1)
        latent, key_rotary = torch.split(self.down(x), [self.latent, ROTARY], -1)
        latent = self.norm(latent)[:, None]
        key_rotary = rotate(key_rotary, cos, sin)[:, None]
        scores = query @ self.up[:, :PLAIN] @ latent.mT
        scores = (scores + rotate(query_rotary, cos, sin) @ key_rotary.mT) * SCALE
        later = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(later, -math.inf).softmax(-1, dtype=at_least_float32(x.dtype)).to(x.dtype)
        mixed = weights @ latent @ self.up[:, PLAIN:].mT
        out: torch.Tensor = self.output(mixed.transpose(1, 2).reshape(batch, tokens, -1))
        return out


class Expert(nn.Module):
    """A gated two-layer network (SwiGLU)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = Linear(width, hidden)
        self.up = Linear(width, hidden)
        self.down = Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) to the same shape."""
        out: torch.Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


class Experts(nn.Module):
    """Routed experts, weighted by a softmax over all that is not normalised over the chosen, and a shared one."""

    def __init__(self, width: int, hidden: int, experts: int, active: int) -> None:
        super().__init__()
        self.active = active
        self.router = nn.Parameter(torch.zeros(experts, width, dtype=DTYPE))
        self.experts = nn.ModuleList(Expert(width, hidden) for _ in range(experts))
        self.shared = Expert(width, SHARED * hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        tokens, wide = x.flatten(0, -2), at_least_float32(x.dtype)
        scores = F.linear(tokens.to(wide), self.router.to(wide)).softmax(-1)
        weights, chosen = scores.topk(self.active)
        routed = self._routed(tokens, chosen) * weights[..., None]
        out: torch.Tensor = routed.sum(1) * ROUTE_SCALE + self.shared(tokens)
        return out.to(x.dtype).view_as(x)

    def _routed(self, tokens: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """What each chosen expert makes of its tokens: (tokens, active, width)."""
        order = chosen.flatten().argsort(stable=True)
        sizes = torch.bincount(chosen.flatten(), minlength=len(self.experts)).tolist()
        slices = torch.split(tokens[order // self.active], sizes)
        made = torch.cat([expert(part) for expert, part in zip(self.experts, slices, strict=True) if len(part)])
        return torch.empty_like(made).index_copy(0, order, made).view(*chosen.shape, -1)


class Block(nn.Module):
    """Attention and a network, each behind a norm and beside a residual."""

    def __init__(self, width: int, network: nn.Module, heads: int, latent: int) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(width, eps=1e-6, dtype=DTYPE)
        self.attention = Attention(width, heads, latent)
        self.network_norm = nn.RMSNorm(width, eps=1e-6, dtype=DTYPE)
        self.network = network

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        x = x + self.attention(self.attention_norm(x), cos, sin)
        out: torch.Tensor = x + self.network(self.network_norm(x))
        return out


class Model(nn.Module):
    """Embedding, a dense block, blocks with experts, norm, logits."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, vocabulary: int, width: int, layers: int, experts: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, _weight=torch.empty(vocabulary, width, dtype=DTYPE))
        networks = [
            Expert(width, DENSE_HIDDEN) if index == 0 else Experts(width, EXPERT_HIDDEN, experts, ACTIVE)
            for index in range(layers)
        ]
        self.blocks = nn.ModuleList(Block(width, network, HEADS, LATENT) for network in networks)
        self.norm = nn.RMSNorm(width, eps=1e-6, dtype=DTYPE)
        self.head = Linear(width, vocabulary)
        self.register_buffer("cos", torch.zeros(TOKENS, ROTARY // 2))
        self.register_buffer("sin", torch.zeros(TOKENS, ROTARY // 2))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, count) to logits (batch, count, vocabulary); at most TOKENS, the first at position 0."""
        count = tokens.shape[1]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos[:count], self.sin[:count])
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def initialise(model: nn.Module) -> None:
    """Unit gain, 3 for routers, 4 for the embedding; norm weights that differ; the table of positions."""
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            nn.init.normal_(parameter, 1.0, 0.2)
        elif name == "embedding.weight":
            nn.init.normal_(parameter, 0.0, 4.0)
        else:
            gain = 3.0 if name.endswith("router") else 1.0
            nn.init.normal_(parameter, 0.0, gain * parameter.shape[-1] ** -0.5)
    angles = rotation_angles(TOKENS)
    tables = dict(model.named_buffers())
    tables["cos"].copy_(angles.cos())
    tables["sin"].copy_(angles.sin())


def get_inputs() -> list[torch.Tensor]:
    """Two sequences."""
    return [torch.randint(VOCABULARY, (BATCH, TOKENS))]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches and lengths."""
    return [[torch.randint(VOCABULARY, shape)] for shape in ((1, TOKENS), (3, TOKENS // 3))]


def get_init_inputs() -> list[object]:
    """Vocabulary, width, layers, experts in a layer."""
    return [VOCABULARY, WIDTH, LAYERS, EXPERTS]


def least_bytes() -> int:
    """Of each layer nearly all experts and the shared one, less what a device may keep near; the head; the logits."""
    experts = (LAYERS - 1) * 3 * WIDTH * EXPERT_HIDDEN * (EXPERTS * 15 // 16 + SHARED)
    weights = experts + 3 * WIDTH * DENSE_HIDDEN + WIDTH * VOCABULARY
    return max(0, 2 * weights - CACHE) + 2 * BATCH * TOKENS * VOCABULARY


def least_operations() -> int:
    """Of experts, the dense network and the head; attention's layers may be folded into each other."""
    experts = (LAYERS - 1) * 3 * WIDTH * EXPERT_HIDDEN * (ACTIVE + SHARED)
    return 2 * BATCH * TOKENS * (experts + 3 * WIDTH * DENSE_HIDDEN + WIDTH * VOCABULARY)


LEAST_BYTES = least_bytes()
LEAST_OPERATIONS = least_operations()
