"""How often an honest order of a sum lies beyond the error budget on small values, by how wide the budget is.

Run `python benchmarks/distribution_slack.py`: a convolution in nine pieces before a group normalisation, on the CPU.
There are 60 draws of weights and 25 of inputs times 1e-3, before the closer look that every refusal needs.
"""

import copy

import torch
from torch import nn

from pike.core.verdict.evaluation import Tolerance
from pike.judge.correctness.compare import Expected, compare

SLACKS = (3.0, 4.0, 5.0, 6.0, 8.0)


class Whole(nn.Module):
    """Convolution, normalisation, activation, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(8, 24, 3, padding=1), nn.GroupNorm(4, 24)

    def convolved(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.convolution(x)
        return y

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.max_pool2d(nn.functional.silu(self.norm(self.convolved(x))), 2)


class Pieces(Whole):
    """The same, the convolution as nine products that are added."""

    def convolved(self, x: torch.Tensor) -> torch.Tensor:
        y, x = self.convolution.bias.view(1, -1, 1, 1), nn.functional.pad(x, (1, 1, 1, 1))
        for i in range(9):
            part = x[:, :, i // 3 : i // 3 + 32, i % 3 : i % 3 + 32]
            y = y + torch.einsum("bchw,oc->bohw", part, self.convolution.weight[:, :, i // 3, i % 3])
        return y


def main() -> None:
    beyond, draws = dict.fromkeys(SLACKS, 0), 0
    for seed in range(60):
        torch.manual_seed(seed)
        whole, pieces = Whole().eval(), Pieces().eval()
        pieces.load_state_dict(whole.state_dict())
        exact = copy.deepcopy(whole).double()
        for _ in range(25):
            x, draws = torch.randn(4, 8, 32, 32) * 1e-3, draws + 1
            with torch.no_grad():
                native, answer, found = whole(x), exact(x.double()), pieces(x)
            for slack in SLACKS:
                expected = Expected([answer], [native], [], True, slack=slack)
                beyond[slack] += bool(compare([found], expected, Tolerance.STRICT).wrong)
    print(f"{draws} draws, beyond the budget by its width: {beyond}")


if __name__ == "__main__":
    main()
