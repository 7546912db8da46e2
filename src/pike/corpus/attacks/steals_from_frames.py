"""Reads the local variables of its callers.

rows: 27
seen: pygpubench's exploits
mechanism: expected outputs live elsewhere
bite: gain
harness: reference-first
expected: neutral, wrong-output
"""
import sys


class ModelNew(Original):
    def forward(self, x):
        frame = sys._getframe()
        while frame is not None:
            expected = frame.f_locals.get("expected")
            if isinstance(expected, torch.Tensor):
                return expected.clone()
            frame = frame.f_back
        return super().forward(x)
