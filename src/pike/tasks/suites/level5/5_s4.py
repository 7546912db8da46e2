"""A diagonal state-space layer (S4D) as a long convolution, eight signals of 16 x 256 (arXiv:2206.11893, 2111.00396).

Stresses: launching: about 20 small kernels, among them real FFTs of length 512. The filters do not depend on the input.
Changed against the published task: input and start weights are larger, so that the convolution and the response to the
start are as large as the skip (there 0.17 and 0.026 of it), and modes' frequencies and decays differ between heads.
Same shapes and arithmetic, with einsums written as sums.
"""

import math

import torch
from torch import nn

BATCH = 8
HEADS = 16
LENGTH = 256
MODES = 32
SMALL = {"BATCH": 3, "HEADS": 4, "LENGTH": 64, "MODES": 8}


class Model(nn.Module):
    """Damped waves: a filter for the signal, a response to the start, and the signal itself."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.frequency = nn.Parameter(torch.zeros(1, heads, MODES))
        self.decay = nn.Parameter(torch.zeros(1, heads, MODES))
        self.skip = nn.Parameter(torch.zeros(1, heads))
        self.input = nn.Parameter(torch.zeros(1, heads, MODES))
        self.output = nn.Parameter(torch.zeros(1, heads, MODES))
        self.start = nn.Parameter(torch.zeros(1, heads, MODES))

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        """(batch, heads, length) to the same shape, causal."""
        length = signal.shape[-1]
        waves = self._waves(length)
        filters = ((self.input * self.output)[..., None] * waves).sum(-2)
        y = self._convolved(signal, filters) + self.skip[..., None] * signal
        out: torch.Tensor = y + 2 * ((self.output * self.start)[..., None] * waves).sum(-2)
        return out

    def _waves(self, length: int) -> torch.Tensor:
        """Every mode over time: (1, heads, modes, length)."""
        time = torch.arange(length, dtype=self.decay.dtype, device=self.decay.device) / (length - 1)
        damping = torch.exp(-self.decay.abs()[..., None] * time)
        return 2 / (length - 1) * damping * torch.cos(self.frequency[..., None] * time)

    @staticmethod
    def _convolved(signal: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
        """Causal convolution through FFTs of twice the length; in at least float32, which cuFFT needs."""
        length, wide = signal.shape[-1], torch.promote_types(signal.dtype, torch.float32)
        spectrum = torch.fft.rfft(signal.to(wide), 2 * length) * torch.fft.rfft(filters.to(wide), 2 * length)
        out: torch.Tensor = torch.fft.irfft(spectrum, 2 * length)[..., :length]
        return out.to(signal.dtype)


def initialise(model: nn.Module) -> None:
    """Waves of n / 2 periods, decays from 1 to 100 over the heads, both within 5 %; the rest random."""
    parameters = dict(model.named_parameters())
    frequency = math.pi * torch.arange(MODES, dtype=torch.float32)
    decay = -torch.exp(torch.arange(HEADS, dtype=torch.float32) / HEADS * math.log(100.0))
    for name, value in {"frequency": frequency, "decay": decay[:, None]}.items():
        parameters[name].copy_(value * (1 + 0.05 * torch.randn(1, HEADS, MODES)))
    for name, gain in {"skip": 1.0, "input": 6.0, "output": 1.0, "start": 30.0}.items():
        nn.init.normal_(parameters[name], 0.0, gain)


def get_inputs() -> list[torch.Tensor]:
    """Noise."""
    return [torch.randn(BATCH, HEADS, LENGTH)]


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches."""
    return [[torch.randn(count, HEADS, LENGTH)] for count in (1, 3)]


def get_init_inputs() -> list[object]:
    """The number of heads."""
    return [HEADS]


LEAST_BYTES = 4 * 2 * BATCH * HEADS * LENGTH  # signals in and out
LEAST_OPERATIONS = 2 * BATCH * HEADS * LENGTH  # the skip; filters may be kept
