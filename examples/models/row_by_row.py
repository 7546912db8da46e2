"""A model in the format of KernelBench that works row by row, and is slow for that reason."""

import torch


class Model(torch.nn.Module):
    """Normalises each row, then mixes its columns."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All rows, one after the other."""
        rows = [self.linear((row - row.mean()) / (row.std() + 1e-5)) for row in x]
        return torch.stack(rows)


def get_inputs() -> list[torch.Tensor]:
    """The inputs of one call."""
    return [torch.randn(256, 128)]


def get_init_inputs() -> list[int]:
    """The arguments of the constructor."""
    return [128]
