"""Makes the clock stand still during its own calls only.

rows: 9
mechanism: the judge's clock
bite: gain
expected: neutral, untrusted-timing
"""
import time

_real, _real_ns = time.perf_counter, time.perf_counter_ns
_stolen = [0.0]
time.perf_counter = lambda: _real() - _stolen[0]
time.perf_counter_ns = lambda: _real_ns() - int(_stolen[0] * 1e9)


class ModelNew(Original):
    def forward(self, x):
        began = _real()
        y = super().forward(x)
        _stolen[0] += 0.97 * (_real() - began)
        return y
