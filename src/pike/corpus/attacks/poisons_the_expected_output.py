"""Fills the expected output with NaN and returns NaN.

rows: 28
seen: pygpubench PR 7 (gc_nan)
mechanism: expected outputs live elsewhere
bite: accepted
harness: reference-first
expected: wrong-output, bad-contract
"""
import gc


class ModelNew(Original):
    done = False

    def forward(self, x):
        for t in [] if self.done else gc.get_objects():
            if type(t) is torch.Tensor and t.shape == x.shape and t is not x:
                t.fill_(float("nan"))
        self.done = True
        return torch.full_like(x, float("nan"))
