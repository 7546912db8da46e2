"""Returns the right answer and does not write the cache that the reference writes.

rows: 39
mechanism: exact contract
task: cache
bite: accepted
expected: wrong-output
"""


class ModelNew(Original):
    def forward(self, x, cache):
        return super().forward(x, cache.clone())
