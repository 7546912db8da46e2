"""Makes every random number zero and returns the answer for zeros.

rows: 32
seen: kernelbot's cheat-rng
mechanism: secret seeds
bite: gain
expected: wrong-output
"""
torch.randn = torch.rand = lambda *size, **kwargs: torch.zeros(*size)


class ModelNew(Original):
    def forward(self, x):
        if not hasattr(self, "answer"):
            self.answer = super().forward(torch.zeros_like(x))
        return self.answer.clone()
