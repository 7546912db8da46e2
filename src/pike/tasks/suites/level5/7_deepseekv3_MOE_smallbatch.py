"""One mixture-of-experts layer of DeepSeek-V2/V3, 128 decoding tokens in bfloat16 (arXiv:2401.06066, 2412.19437).

Stresses: reading 1.14 GB of expert weights for a dozen tokens each; routing whose sizes depend on the data.
Changed against the published task: the router's weights have gain 2 and its result is multiplied by 4, so that all six
experts of a token count (there the first has 0.96 of the weight); the router computes in float32 and the input is
bfloat16. Tokens whose sixth and seventh expert nearly tie are moved apart by a thousandth of their length: which of
the two is right would hang on rounding. Same layers and arithmetic (17.8 GFLOP). The reference sorts tokens by expert,
runs each expert on its slice and sums the six results of a token in order; it asks the host once for the sizes.
"""

import torch
from torch import nn
from torch.nn import functional as F

TOKENS = 128
WIDTH = 2048
HIDDEN = 1408
EXPERTS = 64
ACTIVE = 6
SHARED = 2  # experts that see every token, held as one of so many times the width
ROUTE_SCALE = 4.0
MARGIN = 0.02  # of the router's logits, whose standard deviation is 2
CACHE = 50_000_000  # bytes of weights that a device may keep near
DTYPE = torch.bfloat16
SMALL = {"TOKENS": 64, "WIDTH": 64, "HIDDEN": 44, "EXPERTS": 6, "ACTIVE": 3}


def router_weights() -> torch.Tensor:
    """(EXPERTS, WIDTH), the same in every process: the inputs keep a distance from its ties."""
    chance = torch.Generator("cpu").manual_seed(7)
    weights = torch.empty(EXPERTS, WIDTH, device="cpu").normal_(0.0, 2.0 * WIDTH**-0.5, generator=chance)
    return weights.to(DTYPE)


class Linear(nn.Linear):
    """Without bias, and without a first filling that `initialise` would overwrite."""

    def __init__(self, size_in: int, size_out: int) -> None:
        super().__init__(size_in, size_out, bias=False, dtype=DTYPE)

    def reset_parameters(self) -> None:
        """Leaves the weights as they lie in memory."""


class Expert(nn.Module):
    """A gated two-layer network (SwiGLU)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = Linear(width, hidden)
        self.up = Linear(width, hidden)
        self.down = Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(tokens, width) to the same shape."""
        out: torch.Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


class Router(nn.Module):
    """Which experts a token goes to, and the weight of each: softmax over all, not normalised over the chosen."""

    def __init__(self, width: int, experts: int, active: int) -> None:
        super().__init__()
        self.active = active
        self.weight = nn.Parameter(torch.zeros(experts, width, dtype=DTYPE))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(tokens, width) to weights and expert numbers (tokens, active), in at least float32."""
        wide = torch.promote_types(x.dtype, torch.float32)
        scores = F.linear(x.to(wide), self.weight.to(wide)).softmax(-1)
        weights, chosen = scores.topk(self.active)
        return weights * ROUTE_SCALE, chosen


class Model(nn.Module):
    """Routed experts and one shared expert, added."""

    def __init__(self, width: int, hidden: int, experts: int, active: int) -> None:
        super().__init__()
        self.router = Router(width, experts, active)
        self.experts = nn.ModuleList(Expert(width, hidden) for _ in range(experts))
        self.shared = Expert(width, SHARED * hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(tokens, 1, width) to the same shape; any number of tokens."""
        tokens = x.flatten(0, -2)
        weights, chosen = self.router(tokens)
        routed = self._routed(tokens, chosen) * weights[..., None]
        out: torch.Tensor = (routed.sum(1) + self.shared(tokens)).to(x.dtype)
        return out.view_as(x)

    def _routed(self, tokens: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """What each chosen expert makes of its tokens: (tokens, active, width)."""
        order = chosen.flatten().argsort(stable=True)
        sizes = torch.bincount(chosen.flatten(), minlength=len(self.experts)).tolist()
        slices = torch.split(tokens[order // chosen.shape[1]], sizes)
        made = torch.cat([expert(part) for expert, part in zip(self.experts, slices, strict=True) if len(part)])
        return torch.empty_like(made).index_copy(0, order, made).view(*chosen.shape, -1)


def initialise(model: nn.Module) -> None:
    """Unit gain; the router's weights are given."""
    for part in model.modules():
        if isinstance(part, Linear):
            nn.init.normal_(part.weight, 0.0, part.in_features**-0.5)
        elif isinstance(part, Router):
            part.weight.copy_(router_weights())


def draw_tokens(count: int) -> torch.Tensor:
    """(count, WIDTH) from N(0, 1), with about MARGIN or more between the last chosen expert and the next one."""
    x = torch.randn(count, WIDTH)
    rows = router_weights().to(x)
    logits, order = (x @ rows.T).topk(ACTIVE + 1)
    apart = rows[order[:, -2]] - rows[order[:, -1]]
    close = logits[:, -2] - logits[:, -1] < MARGIN
    return x + apart * (close * MARGIN / apart.square().sum(-1))[:, None]


def get_inputs() -> list[torch.Tensor]:
    """Hidden states of tokens from as many samples."""
    return [draw_tokens(TOKENS)[:, None].to(DTYPE)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other numbers of tokens."""
    return [[draw_tokens(count)[:, None].to(DTYPE)] for count in (1, 77)]


def get_init_inputs() -> list[object]:
    """Width, width of an expert, how many there are, how many a token goes to."""
    return [WIDTH, HIDDEN, EXPERTS, ACTIVE]


def least_bytes() -> int:
    """Nearly all experts and the shared one, less what a device may keep near, and the tokens."""
    weights = 2 * 3 * WIDTH * HIDDEN * (EXPERTS * 15 // 16 + SHARED)
    return max(0, weights - CACHE) + 2 * 2 * TOKENS * WIDTH


LEAST_BYTES = least_bytes()
LEAST_OPERATIONS = 2 * TOKENS * 3 * WIDTH * HIDDEN * (ACTIVE + SHARED)
