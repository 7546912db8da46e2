"""Sums in another order before it rounds to bytes, so that a few fall to the other side of an edge.

task: bytes
effort: final
"""


class ModelNew(Original):
    def forward(self, x):
        weight, bias = self.linear.weight, self.linear.bias
        y = x[:, :96] @ weight[:, :96].T + (x[:, 96:] @ weight[:, 96:].T + bias)
        return (200 * y).round().clamp(0, 255).to(torch.uint8)
