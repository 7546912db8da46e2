"""One step of an Elman network with its readout, batch 8 (Elman 1990, doi:10.1207/s15516709cog1402_1).

Stresses: launching kernels; there is little else to do (5.8 million operations, 1.4 MB of weights).
Changed against the published task: a function of both inputs. There, the hidden state is also stored on the module (a
tensor that is no buffer, overwritten by every call, read by none, left on the CPU), which costs a copy in each call. As
there, the output alone is returned, so that the interface is the published one. He and Xavier weights, so that outputs
are of order one. Shapes, layers and arithmetic are the same.
"""

import math

import torch
from torch import nn

BATCH = 8
INPUTS = 1024
HIDDEN = 256
OUTPUTS = 128
SMALL = {"INPUTS": 128, "HIDDEN": 64, "OUTPUTS": 32}


class Model(nn.Module):
    """The hidden state from input and last hidden state, the output from the hidden state."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.input_to_hidden = nn.Linear(inputs + hidden, hidden)
        self.hidden_to_output = nn.Linear(hidden, outputs)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """Input (batch, inputs) and last hidden state (batch, hidden) to output (batch, outputs)."""
        hidden = torch.tanh(self.input_to_hidden(torch.cat((x, hidden), dim=1)))
        output: torch.Tensor = self.hidden_to_output(hidden)
        return output


def initialise(model: nn.Module) -> None:
    """Weights that neither saturate the tanh nor shrink what follows it."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            gain = 1.0 if module.in_features > HIDDEN else 1.6
            nn.init.normal_(module.weight, 0.0, gain / math.sqrt(module.in_features))
            nn.init.normal_(module.bias, 0.0, 0.1)


def draw(batch: int) -> list[torch.Tensor]:
    """Inputs and hidden states."""
    return [torch.randn(batch, INPUTS), torch.randn(batch, HIDDEN)]


def get_inputs() -> list[torch.Tensor]:
    """One batch of inputs with the hidden states before them."""
    return draw(BATCH)


def get_held_out_inputs() -> list[list[torch.Tensor]]:
    """Other batches."""
    return [draw(batch) for batch in (1, 3, 65)]


def get_init_inputs() -> list[int]:
    """Sizes of input, hidden state and output."""
    return [INPUTS, HIDDEN, OUTPUTS]


LEAST_BYTES = 4 * BATCH * (INPUTS + HIDDEN + OUTPUTS)  # weights may stay in a cache
LEAST_OPERATIONS = 2 * BATCH * HIDDEN * (INPUTS + HIDDEN + OUTPUTS)
