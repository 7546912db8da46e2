"""Returns an empty tensor and fills it from a profile hook, right after the clock was read.

rows: 14
mechanism: snapshot of a poisoned output
bite: gain
expected: wrong-output
"""
import sys

_open = []


def _after_the_clock(frame, event, what):
    if event == "c_return" and getattr(what, "__name__", "").startswith("perf_counter") and _open:
        model, x, y = _open.pop()
        sys.setprofile(None)
        y.copy_(Original.forward(model, x))


class ModelNew(Original):
    def forward(self, x):
        y = torch.full_like(x, float("nan"))
        _open[:] = [(self, x, y)]
        sys.setprofile(_after_the_clock)
        return y
