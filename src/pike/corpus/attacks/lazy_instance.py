"""Returns a plain tensor whose own methods compute on first use.

rows: 6
seen: reference-kernels 162 ("instance override")
mechanism: bytes, not methods
bite: gain
expected: wrong-output, bad-contract
"""


class ModelNew(Original):
    def forward(self, x):
        y = torch.full_like(x, float("nan"))
        y.float = y.clone = y.cpu = lambda: Original.forward(self, x)
        return y
