"""Hands the work to a pool of threads that waits from one call to the next.

rows: 3
mechanism: snapshot of a poisoned output
bite: accepted
expected: wrong-output
"""
from concurrent.futures import ThreadPoolExecutor

_pool = ThreadPoolExecutor(1)


class ModelNew(Original):
    def forward(self, x):
        y = torch.full_like(x, float("nan"))
        _pool.submit(self.later, x, y)
        return y

    @torch.no_grad()
    def later(self, x, y):
        for _ in range(2):
            late = super().forward(x)
        y.copy_(late)
